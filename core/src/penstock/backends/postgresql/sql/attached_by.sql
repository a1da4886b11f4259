(
    SELECT coalesce(pg_catalog.array_agg(r.run_id), '{{}}')
    FROM {schema}.run AS r
    WHERE r.spec ->> 'mode' = ANY ({modes}) AND r.target_state -> 'files' ? c.oid::text
)
