-- Sessions that another one waits for and that wait for no lock themselves: who waits behind somebody
-- else is not to blame. Signs change while a session makes progress: while it computes, all the time.
WITH RECURSIVE in_the_way (pid) AS (
    SELECT unnest(pg_catalog.pg_blocking_pids(%(pid)s))
    UNION
    SELECT unnest(pg_catalog.pg_blocking_pids(w.pid)) FROM in_the_way AS w
)
SELECT
    a.pid, a.application_name,
    pg_catalog.concat_ws(
        ' ', a.state, a.query_start, {progress},
        CASE WHEN a.state = 'active' AND a.wait_event_type IS DISTINCT FROM 'Client'
            THEN pg_catalog.clock_timestamp()
        END
    ),
    a.usename
FROM in_the_way AS w
JOIN pg_catalog.pg_stat_activity AS a ON a.pid = w.pid
WHERE pg_catalog.cardinality(pg_catalog.pg_blocking_pids(w.pid)) = 0
