-- How the table differs from the one that a run was prepared for: what, and whether it is still the
-- same table; no row where it does not differ. Partitions may be added, but not taken away.
-- It locks nothing: what is attached or detached waits for locks on the table.
SELECT
    CASE
        WHEN now.oid IS NULL THEN 'is gone'
        WHEN now.oid <> before.oid THEN 'was made anew, or another table has taken its name'
        WHEN part.oid IS NULL THEN 'has lost a partition'
        ELSE 'was truncated or written anew'
    END,
    now.oid IS NOT DISTINCT FROM before.oid AND part.oid IS NOT NULL
FROM (
    SELECT
        (r.target_state ->> 'oid')::oid AS oid,
        r.target_state ->> 'table' AS name,
        f.key::oid AS part,
        f.value::oid AS file
    FROM {schema}.run AS r
    CROSS JOIN LATERAL pg_catalog.jsonb_each_text(r.target_state -> 'files') AS f
    WHERE r.run_id = %(run_id)s
) AS before
LEFT JOIN LATERAL (SELECT pg_catalog.to_regclass(before.name)::oid AS oid) AS now ON true
LEFT JOIN LATERAL (
    SELECT c.oid, c.relfilenode
    FROM pg_catalog.pg_class AS c
    WHERE c.oid = before.part
        AND (
            c.oid = before.oid
            OR before.oid IN (SELECT a.relid FROM pg_catalog.pg_partition_ancestors(c.oid) AS a)
        )
) AS part ON true
WHERE now.oid IS DISTINCT FROM before.oid
    OR part.oid IS NULL
    OR part.relfilenode <> before.file
ORDER BY 2
LIMIT 1
