-- How many more sessions this user may open. Parallel workers and the like count as sessions.
WITH session AS (
    SELECT
        count(*) AS all_of_them,
        count(*) FILTER (WHERE usename = session_user) AS of_user,
        count(*) FILTER (WHERE datname = pg_catalog.current_database()) AS of_database
    FROM pg_catalog.pg_stat_activity
    WHERE datid IS NOT NULL
)
SELECT least(
    current_setting('max_connections')::int
        - current_setting('superuser_reserved_connections')::int
        - coalesce(current_setting('reserved_connections', true)::int, 0)
        - s.all_of_them,
    CASE WHEN r.rolconnlimit >= 0 THEN r.rolconnlimit - s.of_user END,
    CASE WHEN d.datconnlimit >= 0 THEN d.datconnlimit - s.of_database END
)
FROM session AS s
JOIN pg_catalog.pg_roles AS r ON r.rolname = session_user
JOIN pg_catalog.pg_database AS d ON d.datname = pg_catalog.current_database()
