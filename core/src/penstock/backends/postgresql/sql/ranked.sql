-- Values as the caller wrote them, as the key's own type writes them, and their ranks in the
-- comparison that the partitions' conditions make.
WITH written AS (
    SELECT position, value_text, value_text::{type} {collate} AS value
    FROM pg_catalog.unnest(%(texts)s::pg_catalog.text[]) WITH ORDINALITY AS u (value_text, position)
)
SELECT value::pg_catalog.text, pg_catalog.dense_rank() OVER (ORDER BY value), {exact} AS exact
FROM written
ORDER BY position
