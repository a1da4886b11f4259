-- What a table is known by: its oid, and where its rows are stored. TRUNCATE, and whatever writes a
-- table anew, gives it another file. NULL where it is not there.
UPDATE {schema}.run
SET target_state = (
    SELECT pg_catalog.jsonb_build_object(
        'table', %(table)s::text,
        'oid', c.oid::bigint,
        'files', kept.files || (
            SELECT pg_catalog.jsonb_object_agg(p.oid, p.relfilenode::bigint)
            FROM (
                SELECT c.oid AS relid
                UNION
                SELECT t.relid::oid FROM pg_catalog.pg_partition_tree(c.oid) AS t
                WHERE %(children)s
            ) AS part
            JOIN pg_catalog.pg_class AS p ON p.oid = part.relid
        )
    )
    FROM pg_catalog.pg_class AS c
    CROSS JOIN (
        SELECT CASE WHEN %(children)s THEN '{{}}' ELSE coalesce(target_state -> 'files', '{{}}') END
    ) AS kept (files)
    WHERE c.oid = pg_catalog.to_regclass(%(table)s)
)
WHERE run_id = %(run_id)s
