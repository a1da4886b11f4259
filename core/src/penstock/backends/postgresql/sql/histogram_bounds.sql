-- The bounds of a histogram's steps, in order.
SELECT h.bound::text
FROM (
    SELECT s.histogram_bounds::text::{type}[] AS bounds
    FROM pg_catalog.pg_stats AS s
    WHERE s.schemaname = {schema} AND s.tablename = {table} AND s.attname = {column}
    ORDER BY s.inherited = {only}, s.inherited DESC
    LIMIT 1
) AS stats, unnest(stats.bounds) WITH ORDINALITY AS h (bound, position)
ORDER BY h.position
