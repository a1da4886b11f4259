UPDATE {schema}.commit_record
SET rows = %(rows)s, bytes = %(bytes)s, committed_at = clock_timestamp(),
    inserted = %(inserted)s, updated = %(updated)s, transaction = txid_current(),
    spent = %(spent)s
WHERE run_id = %(run_id)s AND partition_id = %(partition_id)s AND committed_at IS NULL
