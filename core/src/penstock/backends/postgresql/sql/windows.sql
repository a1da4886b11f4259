-- Starts of windows from the year, week, day or hour that holds the first value. A window is kept
-- if its start or the next one meets the run's condition.
WITH asked AS (
    SELECT {interval}::pg_catalog.interval AS width
), series AS (
    -- In the select list, the series is generated row by row, so the limit ends it.
    SELECT pg_catalog.generate_series(
        pg_catalog.date_trunc(
            CASE
                WHEN width OPERATOR(pg_catalog.>=) interval '1 month' THEN 'year'
                WHEN width OPERATOR(pg_catalog.=) pg_catalog.date_trunc('day', width)
                    AND (
                        pg_catalog.date_part('day', width)::pg_catalog.int4 OPERATOR(pg_catalog.%) 7
                    ) OPERATOR(pg_catalog.=) 0 THEN 'week'
                WHEN width OPERATOR(pg_catalog.>=) interval '1 hour' THEN 'day'
                ELSE 'hour'
            END,
            {low}::{type}::pg_catalog.timestamp
        ),
        {high}::{type}::pg_catalog.timestamp,
        width
    ) AS start
    FROM asked
    LIMIT {limit}
), distinct_starts AS (
    SELECT DISTINCT start::{type} AS start FROM series
), candidates AS (
    SELECT start AS {column_name}, pg_catalog.lead(start) OVER (ORDER BY start) AS following
    FROM distinct_starts
)
SELECT {column_name}::pg_catalog.text AS start_text
FROM candidates
WHERE {condition} OR following OPERATOR(pg_catalog.=) ANY (
    SELECT {column_name} FROM candidates WHERE {condition}
)
ORDER BY {column_name}
