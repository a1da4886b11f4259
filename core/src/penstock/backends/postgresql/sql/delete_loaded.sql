-- Delete the rows that some transactions wrote; return the count for each transaction.
WITH gone AS (
    DELETE FROM {table}
    WHERE xmin OPERATOR(pg_catalog.=) ANY ({transactions}::pg_catalog.xid[])
    RETURNING xmin AS loader
)
SELECT loader::pg_catalog.text, pg_catalog.count(*) FROM gone GROUP BY loader
