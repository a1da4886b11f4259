-- Set the statuses of runs, and their failures. A run that is done no longer needs its snapshot.
UPDATE {schema}.run AS r
SET
    status = ended.status,
    failures = ended.failures,
    finished_at = CASE
        WHEN ended.status IN ('running', 'created') THEN NULL ELSE pg_catalog.clock_timestamp()
    END,
    snapshot_released_at = CASE
        WHEN ended.status = 'done'
            THEN coalesce(r.snapshot_released_at, pg_catalog.clock_timestamp())
        ELSE r.snapshot_released_at
    END
FROM ROWS FROM (
    pg_catalog.unnest(%(runs)s::text[]),
    pg_catalog.unnest(%(statuses)s::text[]),
    pg_catalog.unnest(%(failures)s::jsonb[])
) AS ended (run_id, status, failures)
WHERE r.run_id = ended.run_id
