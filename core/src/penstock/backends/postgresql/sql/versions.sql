-- Facts that tell whether the row versions of tables are comparable with those of another night, by
-- object id. A table that is attached again has another row in pg_inherits. The timeline is the
-- greatest one that this server knows: for a while after a promotion, a checkpoint names the old
-- one.
WITH RECURSIVE tree AS (
    SELECT c.oid AS root, c.oid, '' AS attached
    FROM pg_catalog.pg_class AS c WHERE c.oid = ANY (%(oids)s)
    UNION ALL
    SELECT tree.root, i.inhrelid, pg_catalog.concat(tree.attached, ' ', i.xmin)
    FROM tree JOIN pg_catalog.pg_inherits AS i ON i.inhparent = tree.oid AND {inherited} AND %(all)s
), leaves AS (
    SELECT tree.root, tree.oid, pg_catalog.max(tree.attached) AS attached, c.relkind, a.amname
    FROM tree
    JOIN pg_catalog.pg_class AS c ON c.oid = tree.oid
    LEFT JOIN pg_catalog.pg_am AS a ON a.oid = c.relam
    WHERE c.relkind <> 'p'
    GROUP BY tree.root, tree.oid, c.relkind, a.amname
), types AS (
    SELECT tree.root, a.atttypid AS oid
    FROM tree JOIN pg_catalog.pg_attribute AS a ON a.attrelid = tree.oid AND a.attnum > 0
    UNION
    SELECT types.root, part.oid
    FROM types
    JOIN pg_catalog.pg_type AS t ON t.oid = types.oid
    CROSS JOIN LATERAL (
        SELECT t.typbasetype AS oid
        UNION ALL SELECT t.typelem
        UNION ALL SELECT r.rngsubtype FROM pg_catalog.pg_range AS r WHERE r.rngtypid = t.oid
        UNION ALL SELECT a.atttypid FROM pg_catalog.pg_attribute AS a
            WHERE a.attrelid = t.typrelid AND t.typrelid <> 0 AND a.attnum > 0
    ) AS part
    WHERE part.oid <> 0
), attributes AS (
    SELECT a.attrelid, pg_catalog.concat_ws(
        ' ', a.attnum, a.attname, a.atttypid, a.atttypmod, a.attisdropped, a.attmissingval,
        CASE WHEN a.attgenerated = 'v' THEN pg_catalog.pg_get_expr(d.adbin, d.adrelid) END
    ) AS fact
    FROM (SELECT DISTINCT oid FROM leaves) AS leaf
    JOIN pg_catalog.pg_attribute AS a ON a.attrelid = leaf.oid AND a.attnum > 0
    LEFT JOIN pg_catalog.pg_attrdef AS d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
), shape (root, fact) AS (
    SELECT types.root, pg_catalog.concat_ws(' ', 'enum', e.enumtypid, e.oid, e.enumlabel)
    FROM types JOIN pg_catalog.pg_enum AS e ON e.enumtypid = types.oid
    UNION ALL
    SELECT types.root, pg_catalog.concat_ws(' ', 'field', a.attrelid, a.attnum, a.attname, a.atttypid, a.attisdropped)
    FROM types
    JOIN pg_catalog.pg_type AS t ON t.oid = types.oid AND t.typrelid <> 0
    JOIN pg_catalog.pg_attribute AS a ON a.attrelid = t.typrelid AND a.attnum > 0
)
SELECT
    roots.root::bigint,
    (SELECT system_identifier::text FROM pg_catalog.pg_control_system()),
    greatest(
        (SELECT timeline_id FROM pg_catalog.pg_control_checkpoint()),
        (SELECT min_recovery_end_timeline FROM pg_catalog.pg_control_recovery()),
        (SELECT received_tli FROM pg_catalog.pg_stat_wal_receiver),
        -- Eight hexadecimal digits: the timeline of the log being written.
        CASE WHEN NOT pg_catalog.pg_is_in_recovery() THEN (
            'x' || pg_catalog.substr(
                pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_insert_lsn()), 1, 8
            )
        )::bit(32)::int END
    ),
    (SELECT oid::bigint FROM pg_catalog.pg_database WHERE datname = current_database()),
    (
        SELECT pg_catalog.json_object_agg(
            leaves.oid::text,
            pg_catalog.concat(leaves.attached, '/', (
                SELECT pg_catalog.md5(pg_catalog.string_agg(fact, E'\n' ORDER BY fact COLLATE "C"))
                FROM attributes WHERE attrelid = leaves.oid
            ))
        )
        FROM leaves WHERE leaves.root = roots.root
    ),
    (
        SELECT pg_catalog.md5(pg_catalog.string_agg(fact, E'\n' ORDER BY fact COLLATE "C"))
        FROM shape WHERE shape.root = roots.root
    ),
    pg_catalog.pg_is_in_recovery(),
    (
        SELECT pg_catalog.string_agg(DISTINCT relkind::text || ' ' || coalesce(amname, ''), ', ')
        FROM leaves
        WHERE leaves.root = roots.root AND NOT (relkind IN ('r', 'm') AND amname = 'heap')
    )
FROM (SELECT DISTINCT root FROM tree) AS roots
