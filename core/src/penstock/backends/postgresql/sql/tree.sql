-- A table and its partitions, from the top down.
SELECT
    c.oid,
    n.nspname,
    c.relname,
    c.relkind::text,
    c.relpersistence::text,
    pg_catalog.pg_has_role(c.relowner, 'USAGE'),
    pg_catalog.pg_get_userbyid(c.relowner),
    c.relispartition,
    EXISTS (
        SELECT FROM pg_catalog.pg_inherits AS i
        WHERE i.inhrelid = c.oid OR (i.inhparent = c.oid AND c.relkind <> 'p')
    )
FROM (
    SELECT {table}::oid AS relid, 0 AS level
    UNION ALL
    SELECT p.relid::oid, p.level FROM pg_catalog.pg_partition_tree({table}::oid) AS p WHERE p.level > 0
) AS tree
JOIN pg_catalog.pg_class AS c ON c.oid = tree.relid
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
ORDER BY tree.level, c.oid
