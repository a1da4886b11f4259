-- As complete_record, for the partitions of a group.
WITH change AS ({changed}),
completed AS (
    UPDATE {schema}.commit_record AS c
    SET rows = a.rows, bytes = a.bytes, committed_at = clock_timestamp(),
        transaction = txid_current(), spent = a.spent
    FROM ROWS FROM (
        pg_catalog.unnest(%(runs)s::text[]), pg_catalog.unnest(%(partitions)s::text[]),
        pg_catalog.unnest(%(rows)s::bigint[]), pg_catalog.unnest(%(bytes)s::bigint[]),
        pg_catalog.unnest(%(spent)s::jsonb[])
    ) AS a (run_id, partition_id, rows, bytes, spent)
    WHERE c.run_id = a.run_id AND c.partition_id = a.partition_id AND c.committed_at IS NULL
        AND NOT EXISTS (SELECT FROM change)
    RETURNING c.run_id
)
SELECT CASE count(*)
    WHEN pg_catalog.cardinality(%(runs)s::text[]) THEN 1
    ELSE CAST({refusal} || count(*) AS int)
END
FROM completed
