-- Equal: no transaction has written to this server in between. A standby's snapshots do not name all
-- who are about to commit: there only the position of its replay says so.
SELECT pg_catalog.concat_ws(
    ' ', pg_catalog.txid_current_snapshot(),
    CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() END
)
