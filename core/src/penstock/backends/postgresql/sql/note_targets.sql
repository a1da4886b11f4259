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
                JOIN pg_catalog.pg_class AS p ON p.oid = part.relid
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
