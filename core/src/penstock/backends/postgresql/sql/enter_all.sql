-- The same as "enter" for many runs, except those on whose tables other runs are active.
SELECT pg_catalog.pg_advisory_lock_shared(
    (pg_catalog.hashtextextended(name, 0) & 2147483647)::integer,
    (pg_catalog.hashtextextended(run_id, 0) & 2147483647)::integer
)
FROM ROWS FROM (
    pg_catalog.unnest(%(runs)s::text[]), pg_catalog.unnest(%(tables)s::text[])
) AS asked (run_id, name)
WHERE NOT asked.run_id = ANY (ARRAY({contested}))
