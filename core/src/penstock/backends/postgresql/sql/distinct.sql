-- The key's own type and collation decide which values are equal, whatever the query lists them by.
SELECT value::pg_catalog.text FROM (
    SELECT DISTINCT value::{type} {collate} AS value FROM {values} AS listed (value) LIMIT {limit}
) AS found
ORDER BY found.value
