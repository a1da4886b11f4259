-- Tables and their partitions, from the root down; no rows for tables that do not exist. It locks
-- none of them. "identity" is the identity of a table in `state.sql`.
WITH RECURSIVE tree (place, oid, level) AS (
    SELECT asked.place, pg_catalog.to_regclass(asked.name)::oid, 0
    FROM pg_catalog.unnest({tables}::text[]) WITH ORDINALITY AS asked (name, place)
    UNION ALL
    SELECT tree.place, i.inhrelid, tree.level + 1
    FROM tree
    JOIN pg_catalog.pg_inherits AS i ON i.inhparent = tree.oid AND {inherited}
    JOIN pg_catalog.pg_class AS c ON c.oid = i.inhrelid AND c.relispartition
)
SELECT
    tree.place,
    n.nspname,
    c.relname,
    c.oid,
    c.relkind::text,
    c.relpersistence::text,
    pg_catalog.pg_has_role(c.relowner, 'USAGE'),
    pg_catalog.pg_get_userbyid(c.relowner),
    c.relispartition,
    EXISTS (
        SELECT FROM pg_catalog.pg_inherits AS i
        WHERE i.inhrelid = c.oid OR (i.inhparent = c.oid AND c.relkind <> 'p')
    ),
    {hypertable},
    pg_catalog.format(
        '%s/%s/%s', extract(epoch FROM pg_catalog.pg_postmaster_start_time()), d.oid, c.oid
    )
FROM tree
JOIN pg_catalog.pg_class AS c ON c.oid = tree.oid
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
CROSS JOIN (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database()) AS d
ORDER BY tree.place, tree.level, c.oid
