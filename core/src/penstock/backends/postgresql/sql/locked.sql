-- The relations that this session has locked, except the server's own.
SELECT DISTINCT l.relation::bigint
FROM pg_catalog.pg_locks AS l
WHERE l.pid = pg_catalog.pg_backend_pid() AND l.locktype = 'relation' AND l.relation >= 16384
