-- The columns of a relation in their order. "native" is false where the binary form holds object
-- ids of its own server (arrays, composites and ranges of types that are not built in), or where
-- there is no binary form.
SELECT
    a.attname,
    CASE
        WHEN t.typnamespace = 'pg_catalog'::regnamespace
            THEN pg_catalog.format_type(a.atttypid, a.atttypmod)
        ELSE pg_catalog.format('%I.%I', n.nspname, t.typname)
    END,
    NOT a.attnotnull AND NOT t.typnotnull,
    a.attgenerated <> '',
    a.atthasdef OR a.attidentity <> '',
    t.typsend <> 0 AND (
        t.typnamespace = 'pg_catalog'::regnamespace
        OR (t.typtype IN ('b', 'e', 'd') AND t.typelem = 0)
    )
FROM pg_catalog.pg_attribute AS a
JOIN pg_catalog.pg_type AS t ON t.oid = a.atttypid
JOIN pg_catalog.pg_namespace AS n ON n.oid = t.typnamespace
WHERE a.attrelid = {table}::regclass AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum
