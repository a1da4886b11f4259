INSERT INTO {schema}.commit_record (run_id, partition_id, attempt)
VALUES (%(run_id)s, %(partition_id)s, %(attempt)s)
ON CONFLICT DO NOTHING
