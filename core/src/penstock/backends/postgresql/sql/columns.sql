-- The columns of a relation in their order.
SELECT
    a.attname,
    a.atttypid,
    a.atttypmod,
    NOT a.attnotnull,
    a.attgenerated <> '',
    a.atthasdef OR a.attidentity <> '',
    greatest(a.attndims, t.typndims)
FROM pg_catalog.pg_attribute AS a
JOIN pg_catalog.pg_type AS t ON t.oid = a.atttypid
WHERE a.attrelid = %s::oid AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum
