-- Weighted bounds of a column from the planner's statistics. Each step of the histogram holds an
-- equal share of the rows that are neither NULL nor among the most common values; each most common
-- value has its own share. The arrays have the default collation: the bounds get the column's, by
-- which the partitions' conditions will compare.
WITH stats AS (
    SELECT
        s.null_frac,
        s.most_common_vals::pg_catalog.text::{type}[] AS common,
        s.most_common_freqs AS shares,
        s.histogram_bounds::pg_catalog.text::{type}[] AS bounds,
        coalesce((
            SELECT pg_catalog.sum(share)
            FROM pg_catalog.unnest(s.most_common_freqs) AS f (share)
        ), 0) AS common_share
    FROM pg_catalog.pg_stats AS s
    WHERE s.schemaname OPERATOR(pg_catalog.=) {schema}::pg_catalog.name
        AND s.tablename OPERATOR(pg_catalog.=) {table}::pg_catalog.name
        AND s.attname OPERATOR(pg_catalog.=) {column}::pg_catalog.name
    ORDER BY s.inherited OPERATOR(pg_catalog.=) {only}, s.inherited DESC
    LIMIT 1
), points AS (
    SELECT h.bound {collate} AS bound, CASE
        WHEN h.position OPERATOR(pg_catalog.<) pg_catalog.cardinality(bounds) THEN greatest(
            0, 1 OPERATOR(pg_catalog.-) null_frac OPERATOR(pg_catalog.-) common_share
        ) OPERATOR(pg_catalog./) (pg_catalog.cardinality(bounds) OPERATOR(pg_catalog.-) 1)
        ELSE 0
    END AS share, 0 AS value_share
    FROM stats, pg_catalog.unnest(bounds) WITH ORDINALITY AS h (bound, position)
    UNION ALL
    SELECT c.bound {collate}, c.share, c.share
    FROM stats, ROWS FROM (
        pg_catalog.unnest(common), pg_catalog.unnest(shares)
    ) AS c (bound, share)
), weighted AS (
    SELECT
        bound AS {column_name},
        pg_catalog.sum(share)::pg_catalog.float8 AS share,
        pg_catalog.sum(value_share)::pg_catalog.float8 AS value_share
    FROM points
    GROUP BY bound
)
-- The output has a different name from the key, so that ORDER BY does not sort the text.
SELECT
    {key}::pg_catalog.text AS bound_text,
    share,
    (SELECT null_frac FROM stats),
    (SELECT coalesce(pg_catalog.cardinality(bounds), 0) FROM stats),
    (SELECT coalesce(pg_catalog.cardinality(common), 0) FROM stats),
    value_share
FROM weighted
WHERE {condition}
ORDER BY {key}
