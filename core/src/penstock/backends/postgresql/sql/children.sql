-- The tables that hold the rows of others: the partitions of a partitioned table, or a table and
-- those that inherit from it. Temporary tables of other sessions are never read with it.
WITH RECURSIVE tree AS (
    SELECT oid AS root, oid FROM unnest(%(oids)s::oid[]) AS asked (oid)
    UNION
    SELECT tree.root, i.inhrelid
    FROM tree JOIN pg_catalog.pg_inherits AS i ON i.inhparent = tree.oid AND {inherited}
)
SELECT
    tree.root::bigint,
    n.nspname,
    c.relname,
    c.relkind::text,
    coalesce(am.amname, ''),
    -- For a foreign table, the size from its last ANALYZE.
    CASE
        WHEN c.relkind = 'f' THEN greatest(c.relpages, 0) * block.size
        ELSE pg_catalog.pg_table_size(c.oid)
    END::bigint,
    CASE WHEN c.relkind = 'f' THEN 0 ELSE pg_catalog.pg_relation_size(c.oid) END / block.size,
    c.reltuples::float8,
    c.relpages,
    pg_catalog.has_table_privilege(c.oid, 'SELECT')
        AND pg_catalog.has_schema_privilege(n.oid, 'USAGE'),
    pg_catalog.row_security_active(c.oid)
FROM tree
JOIN pg_catalog.pg_class AS c ON c.oid = tree.oid AND c.relkind <> 'p' AND c.relpersistence <> 't'
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
LEFT JOIN pg_catalog.pg_am AS am ON am.oid = c.relam
CROSS JOIN (SELECT current_setting('block_size')::bigint AS size) AS block
ORDER BY n.nspname COLLATE "C", c.relname COLLATE "C"
