-- Sessions that hold a partition's lock and whose names begin as requested, as those of its
-- attempts do.
SELECT a.pid, pg_catalog.concat_ws(' ', a.state, a.query_start, {progress})
FROM (SELECT pg_catalog.hashtextextended(%(partition)s, 0) AS key) AS k
JOIN pg_catalog.pg_locks AS l
    ON l.locktype = 'advisory' AND l.granted AND l.objsubid = 1
    AND l.classid::bigint = (k.key >> 32) & 4294967295
    AND l.objid::bigint = k.key & 4294967295
JOIN pg_catalog.pg_database AS d ON d.oid = l.database AND d.datname = current_database()
JOIN pg_catalog.pg_stat_activity AS a ON a.pid = l.pid
WHERE pg_catalog.starts_with(a.application_name, %(prefix)s)
