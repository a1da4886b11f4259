UPDATE {schema}.run SET target_state = NULL WHERE run_id = %(run_id)s
