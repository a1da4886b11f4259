-- An attempt that does not hold its partition's lock inserts nothing, and does not wait: it is sent
-- this before it knows. One that holds it gets it again.
-- The lock on the run's row keeps the run from being started over under this attempt; it is held
-- until the attempt ends. Many attempts share it, and it does not hinder updates of the status.
-- A volatile load whose mark a crash has taken is refused.
-- So is a partition that another run of the series has committed: the second unique index.
INSERT INTO {schema}.commit_record (run_id, partition_id, attempt, series, read_at)
SELECT r.run_id, %(partition_id)s, %(attempt)s, nullif(%(series)s::text, ''), %(read_at)s
FROM (
    SELECT run_id FROM {schema}.run
    WHERE run_id = %(run_id)s AND generation = %(generation)s
        AND pg_catalog.pg_try_advisory_xact_lock(pg_catalog.hashtextextended(%(partition)s, 0))
    FOR KEY SHARE
) AS r
WHERE NOT %(volatile)s
    OR EXISTS (SELECT FROM {schema}.volatile_run AS v WHERE v.run_id = %(run_id)s)
ON CONFLICT DO NOTHING
