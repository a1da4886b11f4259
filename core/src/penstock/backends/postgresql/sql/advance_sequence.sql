-- Advance a sequence to the source's position, or past the rows if the source has none. Never move
-- it back: other sessions may have used it, and this statement may run twice.
SELECT pg_catalog.setval({name}::regclass, wanted.last, wanted.called)
FROM {sequence} AS mine
JOIN pg_catalog.pg_sequence AS q ON q.seqrelid = {name}::regclass
CROSS JOIN LATERAL (
    SELECT
        least(q.seqmax, greatest(q.seqmin, coalesce({last}::bigint, {outermost}))) AS last,
        coalesce({called}::boolean, true) AS called,
        coalesce({last}::bigint, {outermost}) IS NOT NULL AS known
) AS wanted
WHERE wanted.known AND (
    wanted.last {beyond} mine.last_value
    OR (wanted.last = mine.last_value AND wanted.called AND NOT mine.is_called)
)
