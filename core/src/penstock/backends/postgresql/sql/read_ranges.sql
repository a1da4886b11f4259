-- Ranges as somebody wrote them: as values of the key's type, and each with the one before it. An
-- open side is NULL. What a type would round off is an error.
WITH written AS (
    SELECT
        position, lower_text, upper_text,
        lower_text::{type} {collate} AS lower,
        upper_text::{type} {collate} AS upper
    FROM unnest(%(lowers)s::text[], %(uppers)s::text[])
        WITH ORDINALITY AS u (lower_text, upper_text, position)
),
ordered AS (
    SELECT
        *,
        lag(position) OVER sorted AS before,
        lag(upper) OVER sorted AS upper_before
    FROM written
    WINDOW sorted AS (ORDER BY lower NULLS FIRST, upper NULLS LAST)
)
SELECT
    lower::text,
    upper::text,
    coalesce(lower <= upper, true) AS ascends,
    CASE WHEN before IS NOT NULL AND coalesce(lower < upper_before, true) THEN before END
        AS overlapped,
    coalesce({exact_lower}, true) AND coalesce({exact_upper}, true) AS exact
FROM ordered
ORDER BY position
