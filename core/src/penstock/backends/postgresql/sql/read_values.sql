-- Values as somebody wrote them, as the key's own, and which earlier one each of them repeats.
WITH written AS (
    SELECT position, value_text::{type} {collate} AS value
    FROM unnest(%(values)s::text[]) WITH ORDINALITY AS u (value_text, position)
)
SELECT
    value::text,
    nullif(min(position) OVER (PARTITION BY value), position) AS repeated
FROM written
ORDER BY position
