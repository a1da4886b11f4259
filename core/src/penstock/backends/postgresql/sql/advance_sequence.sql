-- Advance a sequence to the source's position, or past the rows if the source has none. Never move
-- it back: other sessions may have used it, and this statement may run twice. A position beyond the
-- sequence's last value leaves it used up: it must not return a number that the source has passed.
SELECT pg_catalog.setval({name}::regclass, wanted.last, wanted.called)
FROM {sequence} AS mine
JOIN pg_catalog.pg_sequence AS q ON q.seqrelid = {name}::regclass
CROSS JOIN LATERAL (
    SELECT coalesce({last}::numeric, {outermost}) AS position
) AS found
CROSS JOIN LATERAL (
    SELECT
        least(q.seqmax, greatest(q.seqmin, found.position))::bigint AS last,
        coalesce({called}::boolean, true) OR found.position {beyond} q.{limit} AS called
) AS wanted
WHERE found.position IS NOT NULL AND (
    wanted.last {beyond} mine.last_value
    OR (wanted.last = mine.last_value AND wanted.called AND NOT mine.is_called)
)
