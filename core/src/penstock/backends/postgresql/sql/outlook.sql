SELECT
    r.status, r.generation, r.snapshots -> -1,
    pg_catalog.jsonb_array_length(r.plan -> 'partitions') - (
        SELECT count(*) FROM {schema}.commit_record AS c
        WHERE c.run_id = r.run_id AND c.committed_at IS NOT NULL
    ),
    r.snapshot_released_at IS NOT NULL
FROM {schema}.run AS r
WHERE r.run_id = %s
