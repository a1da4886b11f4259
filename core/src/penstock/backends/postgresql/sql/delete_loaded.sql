-- The rows that some transactions have written, counted by transaction.
WITH gone AS (
    DELETE FROM {table} WHERE xmin = ANY ({transactions}::xid[]) RETURNING xmin AS loader
)
SELECT loader::text, count(*) FROM gone GROUP BY loader
