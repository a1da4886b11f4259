-- Since when transactions are open that may write to this database; whether their times may be seen;
-- and whether this server is a standby. It is asked in an order of its own: prepared transactions
-- come after this.
SELECT
    pg_catalog.min(a.xact_start)::text,
    pg_catalog.pg_has_role(current_user, 'pg_read_all_stats', 'USAGE'),
    pg_catalog.pg_is_in_recovery()
FROM pg_catalog.pg_stat_activity AS a
WHERE (a.datname = current_database() OR a.datname IS NULL)
    AND a.backend_type IS DISTINCT FROM 'autovacuum worker'
