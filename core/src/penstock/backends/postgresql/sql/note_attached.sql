-- Record the child that a partition of a run was loaded into, in place of the one that it replaced.
UPDATE {schema}.run
SET target_state = pg_catalog.jsonb_set(
    target_state,
    '{{files}}',
    (target_state -> 'files') - %(before)s::text || coalesce(
        (
            SELECT pg_catalog.jsonb_build_object(c.oid, c.relfilenode::bigint)
            FROM pg_catalog.pg_class AS c WHERE c.oid = pg_catalog.to_regclass(%(child)s)
        ),
        '{{}}'
    )
)
WHERE run_id = %(run_id)s
