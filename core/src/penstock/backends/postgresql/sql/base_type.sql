-- The type below all domains.
WITH RECURSIVE chain AS (
    SELECT oid, typbasetype, typnamespace, typname, typcollation FROM pg_catalog.pg_type WHERE oid = %(oid)s
    UNION ALL
    SELECT t.oid, t.typbasetype, t.typnamespace, t.typname, t.typcollation
    FROM chain JOIN pg_catalog.pg_type AS t ON t.oid = chain.typbasetype
)
SELECT n.nspname, chain.typname, chain.typcollation <> 0
FROM chain JOIN pg_catalog.pg_namespace AS n ON n.oid = chain.typnamespace
WHERE chain.typbasetype = 0
