-- Values as the caller wrote them, as the key's own type writes them, and their ranks in the
-- comparison that the partitions' conditions make.
WITH written AS (
    SELECT position, value_text, value_text::{type} {collate} AS value
    FROM unnest(%(texts)s::text[]) WITH ORDINALITY AS u (value_text, position)
)
SELECT value::text, dense_rank() OVER (ORDER BY value), {exact} AS exact
FROM written
ORDER BY position
