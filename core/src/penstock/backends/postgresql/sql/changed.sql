-- How the table differs from the one that a run was prepared for, whether it is still the same
-- table with all its children, and whether it is the same one at all; no row if it does not differ. Child tables may be added, but not removed. The query locks
-- nothing, since attaching or detaching waits for locks on the table.
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
        WHEN before.now IS NULL THEN 'was dropped'
        WHEN before.now <> before.oid THEN 'was recreated, or another table took its name'
        WHEN part.oid IS NULL THEN 'lost a child table'
        ELSE 'was truncated or rewritten'
    END,
    before.now IS NOT DISTINCT FROM before.oid AND part.oid IS NOT NULL,
    before.now IS NOT DISTINCT FROM before.oid
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
