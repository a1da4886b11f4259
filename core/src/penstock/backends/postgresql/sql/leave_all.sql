-- Release the locks that "enter" and "enter_all" took.
SELECT pg_catalog.pg_advisory_unlock_shared(
    (pg_catalog.hashtextextended(name, 0) & 2147483647)::integer,
    (pg_catalog.hashtextextended(run_id, 0) & 2147483647)::integer
)
FROM ROWS FROM (
    pg_catalog.unnest(%(runs)s::text[]), pg_catalog.unnest(%(tables)s::text[])
) AS asked (run_id, name)
