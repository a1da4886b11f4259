-- Show this attempt to the server's monitoring, and try to be the only one for its partition. To
-- wait for a lock for too long is to stall.
SELECT
    pg_catalog.set_config('application_name', %(application_name)s, true),
    pg_catalog.set_config('lock_timeout', %(lock_timeout)s, true),
    pg_catalog.pg_try_advisory_xact_lock(pg_catalog.hashtextextended(%(partition)s, 0))
