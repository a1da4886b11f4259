-- Weighted bounds of a column from the planner's statistics. Each step of the histogram holds an
-- equal share of the rows that are neither NULL nor among the most common values; each most common
-- value has its own share. The arrays have the default collation: the bounds get the column's, by
-- which the partitions' conditions will compare.
WITH stats AS (
    SELECT
        s.null_frac,
        s.most_common_vals::text::{type}[] AS common,
        s.most_common_freqs AS shares,
        s.histogram_bounds::text::{type}[] AS bounds,
        (SELECT coalesce(sum(share), 0) FROM unnest(s.most_common_freqs) AS f (share)) AS common_share
    FROM pg_catalog.pg_stats AS s
    WHERE s.schemaname = {schema} AND s.tablename = {table} AND s.attname = {column}
    ORDER BY s.inherited = {only}, s.inherited DESC
    LIMIT 1
), points AS (
    SELECT h.bound {collate} AS bound, CASE WHEN h.position < cardinality(bounds)
        THEN greatest(0, 1 - null_frac - common_share) / (cardinality(bounds) - 1)
        ELSE 0
    END AS share
    FROM stats, unnest(bounds) WITH ORDINALITY AS h (bound, position)
    UNION ALL
    SELECT c.bound {collate}, c.share
    FROM stats, unnest(common, shares) AS c (bound, share)
), weighted AS (
    SELECT bound AS {column_name}, sum(share)::float8 AS share FROM points GROUP BY bound
)
-- The output has a different name from the key, so that ORDER BY does not sort the text.
SELECT
    {key}::text AS bound_text,
    share,
    (SELECT null_frac FROM stats),
    (SELECT coalesce(cardinality(bounds), 0) FROM stats),
    (SELECT coalesce(cardinality(common), 0) FROM stats)
FROM weighted
WHERE {condition}
ORDER BY {key}
