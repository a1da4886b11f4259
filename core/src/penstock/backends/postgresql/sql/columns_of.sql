-- The columns of tables, each in its order.
SELECT
    asked.place,
    a.attname,
    a.atttypid,
    a.atttypmod,
    NOT a.attnotnull,
    a.attgenerated <> '',
    a.atthasdef OR a.attidentity <> '',
    greatest(a.attndims, t.typndims)
FROM pg_catalog.unnest({tables}::text[]) WITH ORDINALITY AS asked (name, place)
JOIN pg_catalog.pg_attribute AS a
    ON a.attrelid = pg_catalog.to_regclass(asked.name) AND a.attnum > 0 AND NOT a.attisdropped
JOIN pg_catalog.pg_type AS t ON t.oid = a.atttypid
ORDER BY asked.place, a.attnum
