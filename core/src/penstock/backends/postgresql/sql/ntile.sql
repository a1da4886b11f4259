-- Keys that begin tiles of about equal size, each with its share of the rows that are not NULL, and
-- the share of NULLs. Equal keys are never separated: a bound's share reaches from the first row
-- that has it to the first row of the next bound.
WITH ranked AS (
    SELECT
        {key} AS value,
        row_number() OVER sorted - 1 AS place,
        rank() OVER sorted - 1 AS first_place,
        count({key}) OVER () AS known,
        count(*) OVER () AS total
    FROM {rows}
    WHERE {condition}
    WINDOW sorted AS (ORDER BY {key} NULLS LAST)
), bounds AS (
    -- One row per value: texts of equal values may differ, such as 1.0 and 1.00.
    SELECT DISTINCT ON (first_place) value, first_place, known, total
    FROM ranked
    WHERE place * {count} % known < {count} AND place < known
    ORDER BY first_place, place
)
SELECT
    value::text,
    (lead(first_place, 1, known) OVER (ORDER BY first_place) - first_place) / known::float8,
    (total - known) / total::float8
FROM bounds
ORDER BY first_place
