-- Facts that identify tables. Tuples are counted since the last reset of the statistics; a crash
-- resets them, and then a table with rows and no inserts shows that the counts mean nothing. A
-- standby counts none. Then, whether rows may be on another server, and a digest of what gives stored
-- values their names and texts.
WITH RECURSIVE tree AS (
    SELECT oid AS root, oid FROM unnest(%(oids)s::oid[]) AS asked (oid)
    UNION
    SELECT tree.root, i.inhrelid
    FROM tree JOIN pg_catalog.pg_inherits AS i ON i.inhparent = tree.oid AND {inherited}
), parts AS (
    SELECT
        tree.root,
        c.oid,
        c.relkind = 'f' AS elsewhere,
        c.relkind <> 'p' AND c.relpersistence <> 't' AS stored,
        pg_catalog.pg_relation_filenode(c.oid) AS filenode,
        c.relkind IN ('r', 't', 'm') AND (
            pg_catalog.pg_stat_get_tuples_inserted(c.oid) > 0 OR c.relpages <= 0
        ) AS counted,
        pg_catalog.pg_stat_get_tuples_inserted(c.oid) AS inserted,
        pg_catalog.pg_stat_get_tuples_updated(c.oid) AS updated,
        pg_catalog.pg_stat_get_tuples_deleted(c.oid) AS deleted
    FROM tree JOIN pg_catalog.pg_class AS c ON c.oid = tree.oid
), whole AS (
    SELECT
        root,
        bool_or(elsewhere) AS elsewhere,
        string_agg(oid::text, ',' ORDER BY oid) FILTER (WHERE stored) AS oids,
        string_agg(coalesce(filenode::text, ''), ',' ORDER BY oid) FILTER (WHERE stored)
            AS filenodes,
        bool_and(counted) FILTER (WHERE stored) AS counted,
        sum(inserted) FILTER (WHERE stored) AS inserted,
        sum(updated) FILTER (WHERE stored) AS updated,
        sum(deleted) FILTER (WHERE stored) AS deleted
    FROM parts
    GROUP BY root
), types AS (
    -- Columns of child tables have the names and types of the root's.
    SELECT roots.oid AS root, a.atttypid AS oid
    FROM unnest(%(oids)s::oid[]) AS roots (oid)
    JOIN pg_catalog.pg_attribute AS a ON a.attrelid = roots.oid
    WHERE a.attnum > 0 AND NOT a.attisdropped
    UNION
    SELECT types.root, part.oid
    FROM types
    JOIN pg_catalog.pg_type AS t ON t.oid = types.oid
    CROSS JOIN LATERAL (
        SELECT t.typbasetype AS oid
        UNION ALL SELECT t.typelem
        UNION ALL SELECT a.atttypid FROM pg_catalog.pg_attribute AS a
            WHERE a.attrelid = t.typrelid AND t.typrelid <> 0 AND a.attnum > 0
    ) AS part
    WHERE part.oid <> 0
), shape (root, fact) AS (
    SELECT tree.root, pg_catalog.concat_ws(
        ' ', a.attrelid, a.attnum, a.attname, a.atttypid, a.atttypmod,
        CASE WHEN a.attgenerated <> '' THEN pg_catalog.pg_get_expr(d.adbin, d.adrelid) END
    )
    FROM tree
    JOIN pg_catalog.pg_attribute AS a ON a.attrelid = tree.oid AND a.attnum > 0
        AND NOT a.attisdropped AND (tree.oid = tree.root OR a.attgenerated <> '')
    LEFT JOIN pg_catalog.pg_attrdef AS d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    UNION ALL
    SELECT types.root, pg_catalog.concat_ws(' ', 'enum', e.oid, e.enumlabel)
    FROM types JOIN pg_catalog.pg_enum AS e ON e.enumtypid = types.oid
)
SELECT
    c.oid::bigint,
    pg_catalog.format(
        '%%s/%%s/%%s', extract(epoch FROM pg_postmaster_start_time()), d.oid, c.oid
    ),
    pg_catalog.format(
        '%%s/%%s/%%s', d.oid, c.oid,
        CASE WHEN length(filenodes) > 32 THEN md5(filenodes) ELSE filenodes END
    ),
    CASE
        WHEN pg_is_in_recovery() OR NOT coalesce(counted, false) THEN ''
        ELSE pg_catalog.format(
            '%%s inserted, %%s updated, %%s deleted %%s', inserted, updated, deleted,
            coalesce('since ' || pg_catalog.pg_stat_get_db_stat_reset_time(d.oid)::text, 'in all')
        )
    END,
    CASE WHEN length(oids) > 32 THEN md5(oids) ELSE coalesce(oids, '') END,
    c.relkind IN ('v', 'f') OR whole.elsewhere,
    (
        SELECT pg_catalog.md5(pg_catalog.string_agg(fact, E'\n' ORDER BY fact COLLATE "C"))
        FROM shape WHERE shape.root = c.oid
    )
FROM whole
JOIN pg_catalog.pg_class AS c ON c.oid = whole.root
CROSS JOIN (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database()) AS d
