-- How the table differs from the one that a run was prepared for: what, and whether it is still the
-- same table; no row where it does not differ. Partitions may be added, but not taken away.
-- It locks nothing: what is attached or detached waits for locks on the table.
WITH before AS MATERIALIZED (
    SELECT
        (r.target_state ->> 'oid')::oid AS oid,
        pg_catalog.to_regclass(r.target_state ->> 'table')::oid AS now,
        r.target_state -> 'files' AS files
    FROM {schema}.run AS r
    WHERE r.run_id = %(run_id)s
)
SELECT
    CASE
        WHEN before.now IS NULL THEN 'is gone'
        WHEN before.now <> before.oid THEN 'was made anew, or another table has taken its name'
        WHEN part.oid IS NULL THEN 'has lost a partition'
        ELSE 'was truncated or written anew'
    END,
    before.now IS NOT DISTINCT FROM before.oid AND part.oid IS NOT NULL
FROM before
CROSS JOIN LATERAL pg_catalog.jsonb_each_text(before.files) AS f
LEFT JOIN pg_catalog.pg_inherits AS i ON i.inhrelid = f.key::oid AND i.inhparent = before.oid
LEFT JOIN pg_catalog.pg_class AS part
    ON part.oid = f.key::oid
    AND (
        part.oid = before.oid
        OR i.inhrelid IS NOT NULL
        OR before.oid IN (SELECT a.relid FROM pg_catalog.pg_partition_ancestors(part.oid) AS a)
    )
WHERE before.now IS DISTINCT FROM before.oid
    OR part.oid IS NULL
    OR part.relfilenode <> f.value::oid
ORDER BY 2
LIMIT 1
