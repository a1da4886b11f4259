-- The type below any domains.
WITH RECURSIVE chain AS (
    SELECT oid, typbasetype, typnamespace, typname FROM pg_catalog.pg_type WHERE oid = %(oid)s
    UNION ALL
    SELECT t.oid, t.typbasetype, t.typnamespace, t.typname
    FROM chain JOIN pg_catalog.pg_type AS t ON t.oid = chain.typbasetype
)
SELECT n.nspname, chain.typname
FROM chain JOIN pg_catalog.pg_namespace AS n ON n.oid = chain.typnamespace
WHERE chain.typbasetype = 0
