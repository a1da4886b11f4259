INSERT INTO {schema}.recopy_record (run_id, partition_id, request)
SELECT %(run_id)s, u.id, %(request)s
FROM unnest(%(partition_ids)s::text[]) AS u (id)
ON CONFLICT DO NOTHING
RETURNING partition_id
