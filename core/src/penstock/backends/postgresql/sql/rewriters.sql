-- Sessions that lock out readers of a table, or of what inherits from it, or wait for such a lock;
-- for any table if none is named.
WITH RECURSIVE family (oid) AS (
    SELECT pg_catalog.to_regclass(%(table)s)::oid
    UNION
    SELECT i.inhrelid FROM pg_catalog.pg_inherits AS i JOIN family AS f ON f.oid = i.inhparent
)
SELECT DISTINCT ON (a.pid)
    a.pid, pg_catalog.pg_get_userbyid(a.usesysid)::text, a.application_name, left(a.query, 1000),
    CASE WHEN a.state = 'active' THEN a.query_start ELSE a.xact_start END,
    extract(epoch FROM pg_catalog.clock_timestamp()
        - CASE WHEN a.state = 'active' THEN a.query_start ELSE a.xact_start END)::float8,
    NOT l.granted AS waits, coalesce(a.state, '') AS signs
FROM pg_catalog.pg_locks AS l
JOIN pg_catalog.pg_stat_get_activity(NULL) AS a ON a.pid = l.pid
WHERE l.locktype = 'relation' AND l.mode = 'AccessExclusiveLock'
    AND l.pid <> pg_catalog.pg_backend_pid()
    AND l.database = (
        SELECT d.oid FROM pg_catalog.pg_database AS d WHERE d.datname = current_database()
    )
    AND (%(table)s::text IS NULL OR l.relation IN (SELECT f.oid FROM family AS f))
ORDER BY a.pid, l.granted
