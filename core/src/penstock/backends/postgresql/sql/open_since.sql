-- When the oldest transaction began that is open and may write to this database; whether such times
-- are visible; and whether this server is a standby. Prepared transactions are counted in a later
-- statement.
SELECT
    pg_catalog.min(a.xact_start)::text,
    pg_catalog.pg_has_role(current_user, 'pg_read_all_stats', 'USAGE'),
    pg_catalog.pg_is_in_recovery()
FROM pg_catalog.pg_stat_activity AS a
WHERE (a.datname = current_database() OR a.datname IS NULL)
    AND a.backend_type IS DISTINCT FROM 'autovacuum worker'
