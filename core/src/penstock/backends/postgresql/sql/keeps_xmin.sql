-- Whether every row records the transaction that wrote it, and the next transaction id.
SELECT
    NOT EXISTS (
        SELECT
        FROM (
            SELECT {table}::regclass AS oid
            UNION SELECT relid FROM pg_catalog.pg_partition_tree({table}::regclass)
        ) AS part
        JOIN pg_catalog.pg_class AS c ON c.oid = part.oid
        LEFT JOIN pg_catalog.pg_am AS am ON am.oid = c.relam
        WHERE c.relkind <> 'p' AND (c.relkind <> 'r' OR am.amname <> 'heap')
    ),
    pg_catalog.txid_snapshot_xmax(pg_catalog.txid_current_snapshot())
