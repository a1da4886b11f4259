-- Sessions that have registered other runs on a table, by the run's lock.
SELECT l.objid::bigint, min(l.pid)
FROM pg_catalog.pg_locks AS l
JOIN pg_catalog.pg_database AS d ON d.oid = l.database AND d.datname = current_database()
WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 2
    AND l.classid::bigint = pg_catalog.hashtextextended(%(table)s, 0) & 2147483647
    AND l.objid::bigint <> pg_catalog.hashtextextended(%(run_id)s, 0) & 2147483647
GROUP BY l.objid
