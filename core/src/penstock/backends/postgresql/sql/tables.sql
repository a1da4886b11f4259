-- Tables that are no part of an extension; the last column says which of them, for being a part of
-- another table or no table of the database's own, are found by their full name alone.
SELECT
    n.nspname,
    c.relname,
    c.relkind NOT IN ('r', 'p') OR c.relispartition
        OR n.nspname IN ('pg_catalog', 'information_schema')
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
    -- The tables of runs, under whatever name.
    AND NOT EXISTS (
        SELECT FROM pg_catalog.pg_class AS control
        WHERE control.relnamespace = c.relnamespace AND control.relname = 'commit_record'
            AND c.relname IN ('run', 'commit_record', 'step_record', 'volatile_run')
    )
ORDER BY n.nspname COLLATE "C", c.relname COLLATE "C"
