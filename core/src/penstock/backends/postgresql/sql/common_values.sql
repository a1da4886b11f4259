-- The most common values of a column, by the planner's statistics: each with its share of the rows,
-- and the number whose remainder is its hash bucket. The first column is the share of NULLs.
WITH stats AS (
    SELECT
        s.null_frac,
        s.most_common_vals::pg_catalog.text::{type}[] AS common,
        s.most_common_freqs AS shares
    FROM pg_catalog.pg_stats AS s
    WHERE s.schemaname = {schema} AND s.tablename = {table} AND s.attname = {column}
    ORDER BY s.inherited = {only}, s.inherited DESC
    LIMIT 1
)
SELECT stats.null_frac::float8, c.value::text, c.share::float8, {number}
FROM stats
LEFT JOIN LATERAL ROWS FROM (
    pg_catalog.unnest(stats.common), pg_catalog.unnest(stats.shares)
) AS c (value, share) ON true
