-- Sessions that another session waits for, directly or indirectly. One that waits for no lock
-- blocks all others, and `waits` is false; one that waits itself is not the cause, but may be in
-- the way. The signs change while a session makes progress: constantly while it computes.
WITH RECURSIVE in_the_way (pid) AS (
    SELECT unnest(pg_catalog.pg_blocking_pids(%(pid)s))
    UNION
    SELECT unnest(pg_catalog.pg_blocking_pids(w.pid)) FROM in_the_way AS w
)
SELECT
    a.pid, a.usename::text, a.application_name, left(a.query, 1000),
    CASE WHEN a.state = 'active' THEN a.query_start ELSE a.xact_start END,
    extract(epoch FROM pg_catalog.clock_timestamp()
        - CASE WHEN a.state = 'active' THEN a.query_start ELSE a.xact_start END)::float8,
    pg_catalog.cardinality(pg_catalog.pg_blocking_pids(w.pid)) > 0 AS waits,
    pg_catalog.concat_ws(
        ' ', a.state, a.query_start, {progress},
        CASE WHEN a.state = 'active' AND a.wait_event_type IS DISTINCT FROM 'Client'
            THEN pg_catalog.clock_timestamp()
        END
    ) AS signs
FROM in_the_way AS w
JOIN pg_catalog.pg_stat_activity AS a ON a.pid = w.pid
ORDER BY waits DESC, a.query_start
