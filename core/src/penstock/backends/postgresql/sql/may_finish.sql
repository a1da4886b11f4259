-- Whether every partition is committed, and the load is volatile. Nobody takes a partition back until
-- this transaction ends.
SELECT
    pg_catalog.jsonb_array_length(r.plan -> 'partitions') = (
        SELECT count(*) FROM (
            SELECT FROM {schema}.commit_record
            WHERE run_id = r.run_id AND committed_at IS NOT NULL
            FOR KEY SHARE
        ) AS c
    ),
    (r.plan -> 'load' ->> 'volatile')::boolean
FROM {schema}.run AS r
WHERE r.run_id = %s
