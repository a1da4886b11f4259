-- Weighted bounds of a column from a few blocks, for a table without statistics.
SELECT
    sample.value::text AS bound_text,
    count(*) / sum(count(*)) OVER ()::float8,
    sum(count(*)) OVER ()
FROM (
    SELECT {key} AS value FROM {table} TABLESAMPLE SYSTEM ({percent})
    WHERE {key} IS NOT NULL AND {condition}
) AS sample
GROUP BY sample.value
ORDER BY sample.value
