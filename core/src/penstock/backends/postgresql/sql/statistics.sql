-- The sizes of relations, and the planner's facts about them.
SELECT
    c.oid::bigint,
    c.relkind::text,
    coalesce(am.amname, ''),
    current_setting('block_size')::int,
    CASE WHEN c.relkind IN ('r', 'm') THEN pg_catalog.pg_table_size(c.oid) ELSE 0 END,
    CASE WHEN c.relkind IN ('r', 'm') THEN pg_catalog.pg_relation_size(c.oid) ELSE 0 END,
    c.reltuples::float8,
    c.relpages,
    EXISTS (SELECT FROM pg_catalog.pg_inherits AS i WHERE i.inhparent = c.oid),
    {hypertable},
    c.relkind = 'f' AND EXISTS (
        SELECT FROM pg_catalog.pg_stats AS s
        WHERE s.schemaname = n.nspname AND s.tablename = c.relname
    ),
    pg_catalog.has_any_column_privilege(c.oid, 'SELECT'),
    (
        SELECT a.attname
        FROM pg_catalog.pg_index AS x
        JOIN pg_catalog.pg_attribute AS a ON a.attrelid = x.indrelid AND a.attnum = x.indkey[0]
        WHERE x.indrelid = c.oid AND x.indisprimary AND a.atttypid = ANY (%(ranged)s::regtype[])
    )
FROM pg_catalog.pg_class AS c
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
LEFT JOIN pg_catalog.pg_am AS am ON am.oid = c.relam
WHERE c.oid = ANY (%(oids)s::oid[])
