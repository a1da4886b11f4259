-- Sessions that wait for a lock held by a given session, or by this one. Statements of other users
-- may be hidden from this user; locks are not. No relation is read, so none is locked.
WITH waiting AS (
    SELECT l.pid, min({waitstart}) AS since FROM pg_catalog.pg_locks AS l
    WHERE NOT l.granted
    GROUP BY l.pid
)
SELECT
    a.pid, pg_catalog.pg_get_userbyid(a.usesysid)::text, a.application_name, left(a.query, 1000),
    coalesce(w.since, a.query_start),
    extract(epoch FROM pg_catalog.clock_timestamp() - coalesce(w.since, a.query_start))::float8,
    true AS waits, '' AS signs
FROM waiting AS w
JOIN pg_catalog.pg_stat_get_activity(NULL) AS a ON a.pid = w.pid
WHERE coalesce(%(pid)s::int, pg_catalog.pg_backend_pid()) = ANY (pg_catalog.pg_blocking_pids(w.pid))
ORDER BY 5
