SELECT
    c.relkind::text,
    c.relpersistence = 't',
    c.relispopulated,
    pg_catalog.row_security_active(c.oid)
FROM pg_catalog.pg_class AS c
WHERE c.oid = %(table)s::regclass
