-- Wait for other sessions that merge rows into one of these tables, and make later ones wait.
SELECT pg_catalog.pg_advisory_xact_lock(hash)
FROM (
    SELECT DISTINCT pg_catalog.hashtextextended('penstock:merge:' || name, 0) AS hash
    FROM pg_catalog.unnest(%(tables)s::text[]) AS asked (name)
    ORDER BY 1
) AS sorted
