-- Whether the session's user may create objects in schemas, and schemas in the database.
SELECT
    n.oid IS NOT NULL,
    coalesce(pg_catalog.has_schema_privilege(n.oid, 'USAGE'), false),
    coalesce(pg_catalog.has_schema_privilege(n.oid, 'CREATE'), false),
    pg_catalog.has_database_privilege(current_database(), 'CREATE'),
    current_database()
FROM pg_catalog.unnest(%(schemas)s::text[]) WITH ORDINALITY AS asked (name, place)
CROSS JOIN LATERAL (SELECT pg_catalog.to_regnamespace(asked.name) AS oid) AS n
ORDER BY asked.place
