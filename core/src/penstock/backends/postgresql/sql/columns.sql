-- The columns of a relation in their order. "native" is false where the binary form holds object
-- ids of its own server (reg* types; composites, and arrays of types that are not built in), or
-- where there is no binary form. Of a domain, the type below it decides.
WITH RECURSIVE chain AS (
    SELECT t.oid AS type, t.oid, t.typbasetype
    FROM pg_catalog.pg_type AS t
    WHERE t.oid IN (
        SELECT a.atttypid FROM pg_catalog.pg_attribute AS a WHERE a.attrelid = {table}::regclass
    )
    UNION ALL
    SELECT chain.type, t.oid, t.typbasetype
    FROM chain JOIN pg_catalog.pg_type AS t ON t.oid = chain.typbasetype
)
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
    base.typsend <> 0 AND CASE
        WHEN base.typnamespace = 'pg_catalog'::regnamespace
            THEN base.typtype <> 'c' AND base.typname !~ '^_?reg'
        ELSE base.typtype IN ('b', 'e') AND base.typelem = 0
    END
FROM pg_catalog.pg_attribute AS a
JOIN pg_catalog.pg_type AS t ON t.oid = a.atttypid
JOIN pg_catalog.pg_namespace AS n ON n.oid = t.typnamespace
JOIN chain ON chain.type = t.oid AND chain.typbasetype = 0
JOIN pg_catalog.pg_type AS base ON base.oid = chain.oid
WHERE a.attrelid = {table}::regclass AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum
