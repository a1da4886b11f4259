-- The tables and views of a schema, or of all if it does not exist, that the user may use.
SELECT n.nspname, c.relname
FROM pg_catalog.pg_class AS c
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'v', 'm', 'f', 'p')
    AND NOT c.relispartition
    AND n.nspname !~ '^pg_|^information_schema$'
    AND pg_catalog.has_schema_privilege(n.oid, 'USAGE')
    AND (
        n.nspname = %(schema)s
        OR NOT EXISTS (SELECT FROM pg_catalog.pg_namespace AS own WHERE own.nspname = %(schema)s)
    )
LIMIT 10000
