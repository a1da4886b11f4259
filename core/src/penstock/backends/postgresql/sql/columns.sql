-- The columns of a relation in their order.
SELECT
    a.attname,
    a.atttypid,
    a.atttypmod,
    NOT a.attnotnull,
    a.attgenerated <> '',
    a.atthasdef OR a.attidentity <> ''
FROM pg_catalog.pg_attribute AS a
WHERE a.attrelid = {table}::regclass AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attnum
