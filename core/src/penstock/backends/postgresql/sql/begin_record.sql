-- An attempt without its partition's lock inserts nothing and does not wait: the statement is sent
-- before the attempt knows whether it has the lock. An attempt that has it takes it again. The lock
-- on the run's row keeps the run from being restarted under this attempt, until the attempt ends.
-- Many attempts share it, and it does not block updates of the status. A volatile load whose mark
-- was lost in a crash inserts nothing. Nor does a partition that another run of the series has
-- committed: the second unique index prevents that.
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
