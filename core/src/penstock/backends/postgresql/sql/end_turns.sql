-- Release the locks that "take_turns" took, once each.
SELECT pg_catalog.pg_advisory_unlock(pg_catalog.hashtextextended('penstock:turn:' || name, 0))
FROM pg_catalog.unnest(%(names)s::text[]) AS t (name)
