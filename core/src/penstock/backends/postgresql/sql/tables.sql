-- Tables that do not belong to an extension. The last column tells which of them are found only by
-- their full name, because they are part of another table or do not belong to the database itself.
SELECT
    n.nspname,
    c.relname,
    c.relkind NOT IN ('r', 'p') OR c.relispartition
        -- The last one has the chunks of TimescaleDB's tables.
        OR n.nspname IN ('pg_catalog', 'information_schema', '_timescaledb_internal')
FROM pg_catalog.pg_class AS c
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f')
    AND c.relpersistence <> 't'
    AND n.nspname !~ '^pg_(toast|temp)'
    AND NOT EXISTS (
        SELECT FROM pg_catalog.pg_depend AS d
        WHERE d.classid = 'pg_catalog.pg_class'::regclass AND d.objid = c.oid AND d.objsubid = 0
            AND d.deptype = 'e'
    )
    -- Control tables, whatever their schema is named.
    AND NOT EXISTS (
        SELECT FROM pg_catalog.pg_class AS control
        WHERE control.relnamespace = c.relnamespace AND control.relname = 'commit_record'
            AND c.relname IN ('run', 'commit_record', 'step_record', 'volatile_run')
    )
ORDER BY n.nspname COLLATE "C", c.relname COLLATE "C"
