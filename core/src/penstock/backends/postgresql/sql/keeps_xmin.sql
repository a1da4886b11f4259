-- Whether every row records the transaction that wrote it, and the next transaction id.
SELECT
    NOT EXISTS (
        SELECT
        FROM (
            SELECT {table}::pg_catalog.regclass AS oid
            UNION SELECT relid FROM pg_catalog.pg_partition_tree({table}::pg_catalog.regclass)
        ) AS part
        JOIN pg_catalog.pg_class AS c ON c.oid OPERATOR(pg_catalog.=) part.oid::pg_catalog.oid
        LEFT JOIN pg_catalog.pg_am AS am ON am.oid OPERATOR(pg_catalog.=) c.relam
        WHERE c.relkind OPERATOR(pg_catalog.<>) 'p'::pg_catalog."char" AND (
            c.relkind OPERATOR(pg_catalog.<>) 'r'::pg_catalog."char"
            OR am.amname OPERATOR(pg_catalog.<>) 'heap'::pg_catalog.name
        )
    ),
    pg_catalog.txid_snapshot_xmax(pg_catalog.txid_current_snapshot())
