-- Delete the rows that some transactions wrote; return the count for each transaction.
WITH gone AS (
    DELETE FROM {table} WHERE xmin = ANY ({transactions}::xid[]) RETURNING xmin AS loader
)
SELECT loader::text, count(*) FROM gone GROUP BY loader
