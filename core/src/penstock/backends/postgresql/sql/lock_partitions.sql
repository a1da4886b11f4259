-- As lock_partition, for the partitions of a group, which waits for nothing for long.
SELECT
    pg_catalog.set_config('application_name', %(application_name)s, true),
    pg_catalog.set_config('lock_timeout', %(lock_timeout)s, true),
    (
        SELECT pg_catalog.bool_and(
            pg_catalog.pg_try_advisory_xact_lock(pg_catalog.hashtextextended(p, 0))
        )
        FROM pg_catalog.unnest(%(partitions)s::text[]) AS p
    )
