-- Starts of windows from the year, week, day or hour that holds the first value. A window is kept
-- if its start or the next one meets the run's condition.
WITH asked AS (
    SELECT {interval}::interval AS width
), series AS (
    -- In the select list, the series is generated row by row, so the limit ends it.
    SELECT generate_series(
        date_trunc(
            CASE
                WHEN width >= interval '1 month' THEN 'year'
                WHEN width = date_trunc('day', width)
                    AND extract(day FROM width)::int % 7 = 0 THEN 'week'
                WHEN width >= interval '1 hour' THEN 'day'
                ELSE 'hour'
            END,
            {low}::{type}::timestamp
        ),
        {high}::{type}::timestamp,
        width
    ) AS start
    FROM asked
    LIMIT {limit}
), distinct_starts AS (
    SELECT DISTINCT start::{type} AS start FROM series
), candidates AS (
    SELECT start AS {column_name}, lead(start) OVER (ORDER BY start) AS following FROM distinct_starts
)
SELECT {column_name}::text AS start_text
FROM candidates
WHERE {condition} OR following IN (SELECT {column_name} FROM candidates WHERE {condition})
ORDER BY {column_name}
