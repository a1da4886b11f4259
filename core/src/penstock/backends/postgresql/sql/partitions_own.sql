-- Constraints and indexes that partitions have and the partitioned table lacks.
WITH tree AS (
    SELECT asked.oid AS root, t.relid
    FROM unnest({tables}::oid[]) AS asked (oid)
    CROSS JOIN LATERAL pg_catalog.pg_partition_tree(asked.oid::regclass) AS t
    WHERE t.level > 0
)
SELECT root::bigint, kind, pg_catalog.format('%s of %s', name, relation::regclass)
FROM (
    SELECT tree.root, tree.relid, c.conname AS name, c.conrelid AS relation,
        CASE c.contype WHEN 'f' THEN 'foreign keys' WHEN 'c' THEN 'check constraints'
            WHEN 'p' THEN 'primary keys' ELSE 'unique constraints' END AS kind
    FROM tree
    JOIN pg_catalog.pg_constraint AS c ON c.conrelid = tree.relid
    WHERE c.contype IN ('f', 'c', 'p', 'u') AND c.conislocal AND c.coninhcount = 0
    UNION ALL
    SELECT tree.root, tree.relid, i.relname, x.indrelid, 'indexes'
    FROM tree
    JOIN pg_catalog.pg_index AS x ON x.indrelid = tree.relid
    JOIN pg_catalog.pg_class AS i ON i.oid = x.indexrelid
    WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_inherits AS h WHERE h.inhrelid = x.indexrelid)
        AND NOT EXISTS (
            SELECT FROM pg_catalog.pg_constraint AS c
            WHERE c.conindid = x.indexrelid AND c.contype IN ('p', 'u', 'x')
        )
) AS own
ORDER BY root, kind, relation::regclass::text, name
