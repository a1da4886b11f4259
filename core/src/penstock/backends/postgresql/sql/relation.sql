-- Facts that decide whether relations can be read, and whether this user sees all of their rows.
SELECT
    c.oid::bigint,
    c.relkind::text,
    c.relpersistence = 't',
    c.relispopulated,
    pg_catalog.row_security_active(c.oid)
FROM pg_catalog.pg_class AS c
WHERE c.oid = ANY (%(oids)s::oid[])
