-- Sessions of this run's attempts that have its commit records open.
SELECT a.pid
FROM pg_catalog.pg_locks AS l
JOIN pg_catalog.pg_stat_activity AS a ON a.pid = l.pid
WHERE l.relation = %(records)s::regclass AND l.granted
    AND l.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())
    AND pg_catalog.starts_with(a.application_name, %(prefix)s)
    AND a.pid <> pg_catalog.pg_backend_pid()
