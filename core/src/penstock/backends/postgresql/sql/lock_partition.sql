-- Show this attempt in the server's monitoring, and try to become the only one for its partition.
-- Waiting too long for a lock is a stall.
SELECT
    pg_catalog.set_config('application_name', %(application_name)s, true),
    pg_catalog.set_config('lock_timeout', %(lock_timeout)s, true),
    pg_catalog.pg_try_advisory_xact_lock(pg_catalog.hashtextextended(%(partition)s, 0))
