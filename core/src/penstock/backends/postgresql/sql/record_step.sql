INSERT INTO {schema}.step_record (run_id, step_id)
VALUES (%(run_id)s, %(step_id)s)
ON CONFLICT DO NOTHING
