-- Whether a table is partitioned, and which of its columns cannot be given another value.
SELECT
    c.relkind = 'p',
    ARRAY(
        SELECT a.attname::text FROM pg_catalog.pg_attribute AS a
        WHERE a.attrelid = c.oid AND a.attidentity = 'a' AND NOT a.attisdropped
    ),
    EXISTS (
        SELECT FROM pg_catalog.pg_trigger AS g WHERE g.tgrelid = c.oid AND NOT g.tgisinternal
    ) OR c.relhasrules
FROM pg_catalog.pg_class AS c
WHERE c.oid = %(table)s::regclass
