-- The tables and views that each relation reads, and a digest of how each is defined and stored, as
-- this transaction sees the catalog. A table read by several relations has a row for each.
WITH RECURSIVE asked (relation, oid) AS (
    SELECT t.relation, c.oid
    FROM unnest(%(relations)s::int[], %(schemas)s::name[], %(names)s::name[])
        AS t (relation, schema, name)
    JOIN pg_catalog.pg_namespace AS n ON n.nspname = t.schema
    JOIN pg_catalog.pg_class AS c ON c.relnamespace = n.oid AND c.relname = t.name
    UNION ALL
    SELECT q.relation, q.oid::oid
    FROM unnest(%(queries)s::int[], %(read)s::bigint[]) AS q (relation, oid)
),
tree (relation, oid) AS (
    SELECT a.relation, a.oid FROM asked AS a
    UNION
    SELECT tree.relation, part.oid
    FROM tree
    CROSS JOIN LATERAL (
        SELECT i.inhrelid FROM pg_catalog.pg_inherits AS i WHERE i.inhparent = tree.oid
        UNION ALL
        SELECT d.refobjid
        FROM pg_catalog.pg_rewrite AS r
        JOIN pg_catalog.pg_depend AS d
            ON d.classid = 'pg_catalog.pg_rewrite'::regclass AND d.objid = r.oid
            AND d.refclassid = 'pg_catalog.pg_class'::regclass
        WHERE r.ev_class = tree.oid AND r.ev_type = '1'
    ) AS part (oid)
)
SELECT
    tree.relation,
    c.oid::bigint,
    pg_catalog.md5(
        pg_catalog.concat_ws(
            '|', n.nspname, c.relname, c.relkind, c.relfilenode, c.relpersistence,
            c.relrowsecurity,
            (
                SELECT pg_catalog.array_agg(
                    (
                        a.attnum, a.attname, a.atttypid, a.atttypmod, a.attcollation,
                        a.attnotnull, a.attidentity, a.attisdropped
                    )::text
                    ORDER BY a.attnum
                )
                FROM pg_catalog.pg_attribute AS a
                WHERE a.attrelid = c.oid AND a.attnum > 0
            )::text,
            (
                SELECT pg_catalog.array_agg((d.adnum, d.adbin::text)::text ORDER BY d.adnum)
                FROM pg_catalog.pg_attrdef AS d
                WHERE d.adrelid = c.oid
            )::text,
            (
                SELECT pg_catalog.array_agg(i.indexrelid ORDER BY i.indexrelid)
                FROM pg_catalog.pg_index AS i
                WHERE i.indrelid = c.oid
            )::text,
            (
                SELECT pg_catalog.array_agg(o.oid ORDER BY o.oid)
                FROM pg_catalog.pg_constraint AS o
                WHERE o.conrelid = c.oid
            )::text,
            (
                SELECT pg_catalog.array_agg(r.ev_action::text ORDER BY r.oid)
                FROM pg_catalog.pg_rewrite AS r
                WHERE r.ev_class = c.oid
            )::text,
            c.relpartbound::text
        )
    )
FROM tree
JOIN pg_catalog.pg_class AS c ON c.oid = tree.oid
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
