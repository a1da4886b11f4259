-- Rows that differ from the stage and were not written by this transaction.
SELECT
FROM {table} AS t
JOIN {stage} AS s ON {match}
WHERE {differ} AND NOT t.xmin OPERATOR(pg_catalog.=) {own}
