-- The parts of a table that any table with the same definition has: its columns, and unique keys by
-- which rows can be found.
SELECT pg_catalog.format(
    '%I %s%s%s',
    a.attname,
    pg_catalog.format_type(a.atttypid, a.atttypmod),
    CASE WHEN a.attgenerated <> '' THEN ' GENERATED' END,
    CASE WHEN a.attidentity <> '' THEN ' IDENTITY' END
)
FROM pg_catalog.pg_attribute AS a
WHERE a.attrelid = {table}::regclass AND a.attnum > 0 AND NOT a.attisdropped
UNION ALL
SELECT pg_catalog.format('UNIQUE (%s)', (
    SELECT pg_catalog.string_agg(pg_catalog.quote_ident(a.attname), ', ' ORDER BY a.attname)
    FROM pg_catalog.pg_attribute AS a
    WHERE a.attrelid = x.indrelid
        AND a.attnum = ANY ((x.indkey::int2[])[0:x.indnkeyatts - 1])
))
FROM pg_catalog.pg_index AS x
WHERE x.indrelid = {table}::regclass AND x.indisunique AND x.indisvalid AND x.indimmediate
    AND x.indpred IS NULL AND x.indexprs IS NULL
