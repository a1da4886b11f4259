-- The children attached by runs of some modes, by object id, including partitioned children.
SELECT f.oid::bigint, r.run_id
FROM {schema}.run AS r
CROSS JOIN LATERAL pg_catalog.jsonb_object_keys(r.target_state -> 'files') AS f (oid)
WHERE r.spec ->> 'mode' = ANY (%(modes)s)
