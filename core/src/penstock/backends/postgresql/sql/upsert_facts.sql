-- Whether a table is partitioned, which of its columns cannot be given another value, whether
-- triggers or rules may keep rows from being inserted or updated, and how many blocks it has.
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
    )::bigint / pg_catalog.current_setting('block_size')::int
FROM pg_catalog.pg_class AS c
WHERE c.oid = %(table)s::regclass
