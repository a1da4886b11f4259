-- The last run that loaded rows into this run's target after this one was prepared, and its mode.
-- If only the same rows count, runs with other conditions may have loaded other rows, and each
-- partition defined by a caller counts by itself.
SELECT mine.spec ->> 'target_table', other.run_id, other.spec ->> 'mode'
FROM {schema}.run AS mine
JOIN {schema}.run AS other
    ON other.run_id <> mine.run_id
    AND other.spec ->> 'target_table' = mine.spec ->> 'target_table'
    AND other.spec ->> 'mode' = ANY (%(modes)s)
JOIN {schema}.commit_record AS c
    ON c.run_id = other.run_id AND c.rows > 0 AND c.committed_at > mine.prepared_at
WHERE mine.run_id = %(run_id)s
    AND (
        NOT %(same_rows)s
        OR coalesce(other.spec ->> 'where' = mine.spec ->> 'where', true)
        AND NOT (other.plan ->> 'strategy' = %(given)s AND mine.plan ->> 'strategy' = %(given)s)
    )
ORDER BY c.committed_at DESC
LIMIT 1
