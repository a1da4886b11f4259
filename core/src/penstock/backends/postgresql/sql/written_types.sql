-- Types with their modifiers, as people write them. The server leaves out a schema that is on the
-- search path; the text after the name is the same with and without it.
SELECT
    asked.oid::bigint,
    asked.typmod,
    CASE
        WHEN n.nspname = 'pg_catalog' THEN pg_catalog.format_type(t.oid, asked.typmod)
        ELSE pg_catalog.format('%%I.%%I', n.nspname, t.typname) || pg_catalog.substr(
            pg_catalog.format_type(t.oid, asked.typmod),
            pg_catalog.length(pg_catalog.format_type(t.oid, -1)) + 1
        )
    END
FROM unnest(%(oids)s::oid[], %(typmods)s::int[]) AS asked (oid, typmod)
JOIN pg_catalog.pg_type AS t ON t.oid = asked.oid
JOIN pg_catalog.pg_namespace AS n ON n.oid = t.typnamespace
