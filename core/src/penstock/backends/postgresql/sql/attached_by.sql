-- The children that runs of some modes have attached, by object id; parents are among them.
SELECT f.oid::bigint, r.run_id
FROM {schema}.run AS r
CROSS JOIN LATERAL pg_catalog.jsonb_object_keys(r.target_state -> 'files') AS f (oid)
WHERE r.spec ->> 'mode' = ANY (%(modes)s)
