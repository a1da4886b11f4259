-- The names whose locks this session has now. Taking one again that it has succeeds.
SELECT name
FROM pg_catalog.unnest(%(names)s::text[]) AS t (name)
WHERE pg_catalog.pg_try_advisory_lock(pg_catalog.hashtextextended('penstock:turn:' || name, 0))
