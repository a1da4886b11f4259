-- The tables of a run whose rows are stored in other files than the run's row records.
SELECT c.oid::bigint
FROM {schema}.run AS r
CROSS JOIN LATERAL pg_catalog.jsonb_each_text(r.target_state -> 'files') AS f
JOIN pg_catalog.pg_class AS c ON c.oid = f.key::oid AND c.relfilenode <> f.value::oid
WHERE r.run_id = %(run_id)s
