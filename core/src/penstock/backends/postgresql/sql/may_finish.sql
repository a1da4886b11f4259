-- Whether every partition is committed, and the load is volatile.
SELECT
    pg_catalog.jsonb_array_length(r.plan -> 'partitions') = (
        SELECT count(*) FROM {schema}.commit_record AS c
        WHERE c.run_id = r.run_id AND c.committed_at IS NOT NULL
    ),
    (r.plan -> 'load' ->> 'volatile')::boolean
FROM {schema}.run AS r
WHERE r.run_id = %s
