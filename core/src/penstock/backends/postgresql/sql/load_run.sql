SELECT
    run_id, generation, spec, plan, source_state, snapshots, status,
    created_at::text, prepared_at::text, finished_at::text, failures,
    snapshot_released_at::text
FROM {schema}.run
WHERE run_id = %s
