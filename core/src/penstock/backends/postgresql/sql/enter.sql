-- Held until the session ends, by every process that executes the run.
SELECT pg_catalog.pg_advisory_lock_shared(
    (pg_catalog.hashtextextended(%(table)s, 0) & 2147483647)::integer,
    (pg_catalog.hashtextextended(%(run_id)s, 0) & 2147483647)::integer
)
