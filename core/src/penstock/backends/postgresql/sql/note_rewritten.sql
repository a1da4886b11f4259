UPDATE {schema}.run
SET target_state = pg_catalog.jsonb_set(
    target_state,
    ARRAY['files', %(part)s],
    pg_catalog.to_jsonb((
        SELECT c.relfilenode::bigint FROM pg_catalog.pg_class AS c WHERE c.oid = %(oid)s
    ))
)
WHERE run_id = %(run_id)s
