-- The transaction that holds the horizon back: the oldest one that has written, or is prepared.
SELECT description, seconds
FROM (
    SELECT
        pg_catalog.format(
            'process %%s (%%s, %%s)', pid, usename, coalesce(nullif(application_name, ''), 'unnamed')
        ) AS description,
        extract(epoch FROM clock_timestamp() - xact_start)::float8 AS seconds,
        pg_catalog.age(backend_xid) AS age
    FROM pg_catalog.pg_stat_activity
    WHERE backend_xid IS NOT NULL AND xact_start IS NOT NULL
    UNION ALL
    SELECT
        pg_catalog.format('prepared transaction %%s of %%s', quote_literal(gid), owner),
        extract(epoch FROM clock_timestamp() - prepared)::float8,
        pg_catalog.age(transaction)
    FROM pg_catalog.pg_prepared_xacts
) AS found
ORDER BY age DESC
LIMIT 1
