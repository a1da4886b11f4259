SELECT
    run_id, partition_id, attempt, rows, bytes, started_at::text, committed_at::text, inserted,
    updated, coalesce(transaction::text, ''), read_at
FROM {schema}.commit_record
WHERE series = %s
