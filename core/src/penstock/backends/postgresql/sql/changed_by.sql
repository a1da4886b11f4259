-- The table that a run loads, and the last run prepared after this one that empties or creates the
-- same table.
SELECT
    mine.target_state ->> 'table',
    (
        SELECT other.run_id
        FROM {schema}.run AS other
        WHERE other.run_id <> mine.run_id
            AND other.spec ->> 'target_table' = mine.spec ->> 'target_table'
            AND other.spec ->> 'mode' = ANY (%(modes)s)
            AND other.prepared_at > mine.prepared_at
        ORDER BY other.prepared_at DESC
        LIMIT 1
    )
FROM {schema}.run AS mine
WHERE mine.run_id = %(run_id)s
