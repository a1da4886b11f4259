-- What the sessions of some runs wait for: those of attempts, named penstock:RUN:PARTITION:ATTEMPT,
-- while they run a statement. A user without the privilege sees no state of another user's
-- sessions.
SELECT
    split_part(a.application_name, ':', 2),
    CASE
        WHEN a.state IS NULL THEN NULL
        WHEN a.wait_event IS NULL THEN 'CPU'
        ELSE a.wait_event_type || ':' || a.wait_event
    END,
    count(*)
FROM pg_catalog.pg_stat_activity AS a
WHERE
    a.application_name LIKE 'penstock:%%:%%:%%'
    AND split_part(a.application_name, ':', 2) = ANY(%s)
    AND a.datname = pg_catalog.current_database()
    AND (a.state = 'active' OR a.state IS NULL)
GROUP BY 1, 2
