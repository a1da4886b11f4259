-- Which relations can be read, and what this user could not see of them.
SELECT
    c.oid::bigint,
    c.relkind::text,
    c.relpersistence = 't',
    c.relispopulated,
    pg_catalog.row_security_active(c.oid)
FROM pg_catalog.pg_class AS c
WHERE c.oid = ANY (%(oids)s::oid[])
