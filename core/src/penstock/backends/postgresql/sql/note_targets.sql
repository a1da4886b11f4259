-- What identifies the tables of runs: their object ids, and the files that store their rows.
-- TRUNCATE and every rewrite of a table give it another file. NULL if the table does not exist.
UPDATE {schema}.run AS r
SET
    {prepared}
    target_state = (
        SELECT pg_catalog.jsonb_build_object(
            'table', made.name,
            'oid', c.oid::bigint,
            'files', kept.files || (
                SELECT pg_catalog.jsonb_object_agg(p.oid, p.relfilenode::bigint)
                FROM (
                    SELECT c.oid AS relid
                    UNION
                    SELECT t.relid::oid FROM pg_catalog.pg_partition_tree(c.oid) AS t
                    WHERE coalesce(made.children, r.spec ->> 'mode' <> ALL (%(attaching)s))
                ) AS part
                -- pg_partition_tree is assumed to return a thousand rows: OFFSET 0 keeps the planner
                -- from joining them with a scan of pg_class, which it would make for each table.
                CROSS JOIN LATERAL (
                    SELECT x.oid, x.relfilenode
                    FROM pg_catalog.pg_class AS x
                    WHERE x.oid = part.relid
                    OFFSET 0
                ) AS p
            )
        )
        FROM pg_catalog.pg_class AS c
        CROSS JOIN (
            SELECT CASE
                WHEN coalesce(made.children, r.spec ->> 'mode' <> ALL (%(attaching)s)) THEN '{{}}'
                ELSE coalesce(r.target_state -> 'files', '{{}}')
            END
        ) AS kept (files)
        WHERE c.oid = pg_catalog.to_regclass(made.name)
    )
FROM ROWS FROM (
    pg_catalog.unnest(%(runs)s::text[]),
    pg_catalog.unnest(%(tables)s::text[]),
    pg_catalog.unnest(%(children)s::boolean[])
) AS made (run_id, name, children)
WHERE r.run_id = made.run_id {unprepared}
