-- Functions that may return something else for the same row at another time. Results of stable
-- built-in functions depend on settings, which are the same for every run, unless the function has
-- no argument.
SELECT DISTINCT proname
FROM pg_catalog.pg_proc
WHERE proname = ANY (%(names)s::text[])
    AND (
        provolatile = 'v'
        OR provolatile = 's' AND (
            pronargs = 0 OR oid >= 16384 OR proname IN ('age', 'current_setting')
        )
    )
