-- If it is equal, no transaction has written to this server in between. Snapshots of a standby do
-- not name all transactions that are about to commit: there only the position of its replay shows
-- that.
SELECT pg_catalog.concat_ws(
    ' ', pg_catalog.txid_current_snapshot(),
    CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() END
)
