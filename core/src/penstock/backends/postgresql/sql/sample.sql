-- Weighted bounds of a column from a few blocks, for a table without statistics.
SELECT
    sample.value::pg_catalog.text AS bound_text,
    pg_catalog.count(*)::pg_catalog.float8
        OPERATOR(pg_catalog./) pg_catalog.sum(pg_catalog.count(*)) OVER ()::pg_catalog.float8,
    pg_catalog.sum(pg_catalog.count(*)) OVER ()
FROM (
    SELECT {key} AS value FROM {table} TABLESAMPLE SYSTEM ({percent})
    WHERE {key} IS NOT NULL AND {condition}
) AS sample
GROUP BY sample.value
ORDER BY sample.value
