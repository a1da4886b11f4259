-- The children of tables, by the position of the table, with their bounds as the server writes
-- them.
SELECT
    asked.place,
    c.oid::bigint,
    n.nspname,
    c.relname,
    pg_catalog.pg_get_expr(c.relpartbound, c.oid)
FROM pg_catalog.unnest(%(tables)s::text[]) WITH ORDINALITY AS asked (name, place)
JOIN pg_catalog.pg_inherits AS i ON i.inhparent = pg_catalog.to_regclass(asked.name)
JOIN pg_catalog.pg_class AS c ON c.oid = i.inhrelid
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relispartition
ORDER BY asked.place, c.oid
