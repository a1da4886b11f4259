-- The tables that inherit from others, at any depth, without declarative partitions.
WITH RECURSIVE heirs AS (
    SELECT i.inhparent AS root, i.inhrelid AS oid
    FROM pg_catalog.pg_inherits AS i JOIN pg_catalog.pg_class AS c ON c.oid = i.inhrelid
    WHERE i.inhparent = ANY (%(oids)s::oid[]) AND NOT c.relispartition
    UNION
    SELECT heirs.root, i.inhrelid
    FROM heirs JOIN pg_catalog.pg_inherits AS i ON i.inhparent = heirs.oid
)
SELECT heirs.root::bigint, n.nspname, c.relname
FROM heirs
JOIN pg_catalog.pg_class AS c ON c.oid = heirs.oid AND c.relpersistence <> 't'
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
ORDER BY n.nspname COLLATE "C", c.relname COLLATE "C"
