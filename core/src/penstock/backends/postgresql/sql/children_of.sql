-- The children of a table, with their bounds as the server writes them.
SELECT
    c.oid::bigint,
    n.nspname,
    c.relname,
    pg_catalog.pg_get_expr(c.relpartbound, c.oid)
FROM pg_catalog.pg_inherits AS i
JOIN pg_catalog.pg_class AS c ON c.oid = i.inhrelid
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE i.inhparent = pg_catalog.to_regclass(%(table)s) AND c.relispartition
ORDER BY c.oid
