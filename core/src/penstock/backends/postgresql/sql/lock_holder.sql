-- The session that holds a partition's lock.
SELECT l.pid
FROM (SELECT pg_catalog.hashtextextended(%(partition)s, 0) AS key) AS k
JOIN pg_catalog.pg_locks AS l
    ON l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
    AND l.classid::bigint = (k.key >> 32) & 4294967295
    AND l.objid::bigint = k.key & 4294967295
JOIN pg_catalog.pg_database AS d ON d.oid = l.database AND d.datname = current_database()
