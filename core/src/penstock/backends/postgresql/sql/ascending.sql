-- Whether bounds ascend by the comparison that the partitions' conditions make.
SELECT coalesce(bool_and(bound > previous), true)
FROM (
    SELECT
        text_bound::{type} {collate} AS bound,
        lag(text_bound::{type} {collate}) OVER (ORDER BY position) AS previous
    FROM unnest(%(bounds)s::text[]) WITH ORDINALITY AS u (text_bound, position)
) AS pairs
WHERE previous IS NOT NULL
