SELECT value::text FROM (
    SELECT DISTINCT value::{type} AS value FROM {values} AS listed (value) LIMIT {limit}
) AS found
ORDER BY found.value
