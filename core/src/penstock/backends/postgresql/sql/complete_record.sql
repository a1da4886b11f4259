-- An attempt whose table has changed, or whose record was removed or completed by another one,
-- fails with an error, which keeps the COMMIT sent along from taking effect.
WITH change AS ({changed}),
completed AS (
    UPDATE {schema}.commit_record
    SET rows = %(rows)s, bytes = %(bytes)s, committed_at = clock_timestamp(),
        inserted = %(inserted)s, updated = %(updated)s, transaction = txid_current(),
        spent = %(spent)s
    WHERE run_id = %(run_id)s AND partition_id = %(partition_id)s AND committed_at IS NULL
        AND NOT EXISTS (SELECT FROM change)
    RETURNING partition_id
)
-- Not a constant, which the planner would try to cast.
SELECT CASE count(*) WHEN 1 THEN 1 ELSE CAST({refusal} || count(*) AS int) END FROM completed
