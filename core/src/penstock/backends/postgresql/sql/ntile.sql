-- Keys that begin tiles of about equal size, each with its share of the rows that are not NULL, and
-- the share of NULLs. Equal keys are never separated: a bound's share reaches from the first row
-- that has it to the first row of the next bound.
WITH ranked AS (
    SELECT
        {key} AS value,
        pg_catalog.row_number() OVER sorted OPERATOR(pg_catalog.-) 1 AS place,
        pg_catalog.rank() OVER sorted OPERATOR(pg_catalog.-) 1 AS first_place,
        pg_catalog.count({key}) OVER () AS known,
        pg_catalog.count(*) OVER () AS total
    FROM {rows}
    WHERE {condition}
    WINDOW sorted AS (ORDER BY {key} NULLS LAST)
), bounds AS (
    -- One row per value: texts of equal values may differ, such as 1.0 and 1.00.
    SELECT DISTINCT ON (first_place) value, first_place, known, total
    FROM ranked
    WHERE (place OPERATOR(pg_catalog.*) {count} OPERATOR(pg_catalog.%) known)
            OPERATOR(pg_catalog.<) {count}
        AND place OPERATOR(pg_catalog.<) known
    ORDER BY first_place, place
)
SELECT
    value::pg_catalog.text,
    (
        pg_catalog.lead(first_place, 1, known) OVER (ORDER BY first_place)
            OPERATOR(pg_catalog.-) first_place
    )::pg_catalog.float8 OPERATOR(pg_catalog./) known::pg_catalog.float8,
    (total OPERATOR(pg_catalog.-) known)::pg_catalog.float8
        OPERATOR(pg_catalog./) total::pg_catalog.float8
FROM bounds
ORDER BY first_place
