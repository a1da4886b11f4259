-- Rows that differ from the stage, and were not written by this transaction.
SELECT
FROM {table} AS t
JOIN pg_temp.penstock_stage AS s ON {match}
WHERE {differ} AND NOT t.xmin = {own}
