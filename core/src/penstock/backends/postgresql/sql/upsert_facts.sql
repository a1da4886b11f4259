-- Whether a table is partitioned, which of its columns cannot be updated, whether triggers or rules
-- may prevent rows from being inserted or updated, how many blocks it has, whether foreign keys
-- reference it, and the columns that store values of their own.
SELECT
    c.relkind = 'p',
    ARRAY(
        SELECT a.attname::text FROM pg_catalog.pg_attribute AS a
        WHERE a.attrelid = c.oid AND a.attidentity = 'a' AND NOT a.attisdropped
    ),
    EXISTS (
        SELECT
        FROM (
            SELECT c.oid AS relid
            UNION SELECT p.relid::oid FROM pg_catalog.pg_partition_tree(c.oid) AS p
        ) AS part
        JOIN pg_catalog.pg_trigger AS g ON g.tgrelid = part.relid AND NOT g.tgisinternal
    ) OR c.relhasrules,
    (
        SELECT pg_catalog.sum(pg_catalog.pg_relation_size(part.relid))
        FROM (
            SELECT c.oid AS relid
            UNION SELECT p.relid::oid FROM pg_catalog.pg_partition_tree(c.oid) AS p
        ) AS part
    )::bigint / pg_catalog.current_setting('block_size')::int,
    EXISTS (
        SELECT FROM pg_catalog.pg_constraint AS f
        WHERE f.contype = 'f' AND (
            f.confrelid = c.oid
            OR f.confrelid IN (SELECT p.relid FROM pg_catalog.pg_partition_tree(c.oid) AS p)
        )
    ),
    ARRAY(
        SELECT a.attname::text FROM pg_catalog.pg_attribute AS a
        WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
    )
FROM pg_catalog.pg_class AS c
WHERE c.oid = %(table)s::regclass
