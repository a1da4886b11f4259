SELECT (target_state ->> 'oid')::oid = pg_catalog.to_regclass(%(table)s)
FROM {schema}.run
WHERE run_id = %(run_id)s
