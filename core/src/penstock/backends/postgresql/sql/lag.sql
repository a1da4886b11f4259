-- On a standby: the age of the last replayed transaction, unless everything received has been
-- replayed. On a primary: the largest lag of its standbys; an idle one has none. A user without the
-- privilege sees rows without a state.
SELECT
    pg_catalog.pg_is_in_recovery(),
    coalesce(
        CASE
            WHEN NOT pg_catalog.pg_is_in_recovery() THEN extract(epoch FROM max(r.replay_lag))
            WHEN pg_catalog.pg_last_wal_receive_lsn() <= pg_catalog.pg_last_wal_replay_lsn() THEN 0
            ELSE extract(
                epoch FROM clock_timestamp() - pg_catalog.pg_last_xact_replay_timestamp()
            )
        END,
        0
    ),
    CASE
        WHEN pg_catalog.pg_is_in_recovery() THEN 0
        ELSE count(*) FILTER (WHERE r.pid IS NOT NULL AND r.state IS NULL)
    END
FROM (SELECT 1) AS one
LEFT JOIN pg_catalog.pg_stat_replication AS r ON true
