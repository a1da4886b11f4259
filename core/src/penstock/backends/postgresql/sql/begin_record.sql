-- The lock on the run's row keeps the run from being started over under this attempt; it is held
-- until the attempt ends. Many attempts share it, and it does not hinder updates of the status.
INSERT INTO {schema}.commit_record (run_id, partition_id, attempt)
SELECT r.run_id, %(partition_id)s, %(attempt)s
FROM (
    SELECT run_id FROM {schema}.run
    WHERE run_id = %(run_id)s AND generation = %(generation)s
    FOR KEY SHARE
) AS r
ON CONFLICT DO NOTHING
