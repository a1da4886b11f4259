-- Foreign keys of other tables that reference these. "place" is the position of the table in
-- question, of which these are the parts.
WITH mine (place, oid) AS MATERIALIZED (
    SELECT * FROM ROWS FROM (
        pg_catalog.unnest({places}::bigint[]), pg_catalog.unnest({tables}::oid[])
    ) AS u
)
SELECT mine.place, pg_catalog.format('%I of %s', k.conname, k.conrelid::regclass)
FROM mine
JOIN pg_catalog.pg_constraint AS k ON k.contype = 'f' AND k.confrelid = mine.oid
WHERE NOT EXISTS (SELECT FROM mine AS own WHERE own.place = mine.place AND own.oid = k.conrelid)
ORDER BY 1, 2
