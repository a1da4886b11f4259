-- The relations of some schemas, each with the relations whose removal drops it: itself, and the
-- table of which it is an index, a sequence or a partition.
SELECT
    n.nspname,
    c.relname,
    ARRAY(
        SELECT c.oid
        UNION ALL
        SELECT x.indrelid FROM pg_catalog.pg_index AS x WHERE x.indexrelid = c.oid
        UNION ALL
        SELECT d.refobjid FROM pg_catalog.pg_depend AS d
        WHERE d.classid = 'pg_catalog.pg_class'::regclass AND d.objid = c.oid
            AND d.refclassid = 'pg_catalog.pg_class'::regclass AND d.deptype IN ('a', 'i')
    )::bigint[]
FROM pg_catalog.pg_namespace AS n
JOIN pg_catalog.pg_class AS c ON c.relnamespace = n.oid
WHERE n.nspname = ANY (%(schemas)s)
