INSERT INTO {schema}.volatile_run (run_id) VALUES (%s) ON CONFLICT DO NOTHING
