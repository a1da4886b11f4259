-- Of many runs, those on whose tables sessions have registered other runs; see "other_runs".
SELECT asked.run_id
FROM ROWS FROM (
    pg_catalog.unnest(%(runs)s::text[]), pg_catalog.unnest(%(tables)s::text[])
) AS asked (run_id, name)
WHERE EXISTS (
    SELECT FROM pg_catalog.pg_locks AS l
    JOIN pg_catalog.pg_database AS d ON d.oid = l.database AND d.datname = current_database()
    WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 2
        AND l.classid::bigint = pg_catalog.hashtextextended(asked.name, 0) & 2147483647
        AND l.objid::bigint <> pg_catalog.hashtextextended(asked.run_id, 0) & 2147483647
)
