-- Whether the session's user may make things in a schema, and own what an owner has.
SELECT
    n.oid IS NOT NULL,
    coalesce(pg_catalog.has_schema_privilege(n.oid, 'USAGE'), false),
    coalesce(pg_catalog.has_schema_privilege(n.oid, 'CREATE'), false),
    pg_catalog.has_database_privilege(current_database(), 'CREATE'),
    current_database()
FROM (SELECT pg_catalog.to_regnamespace({schema}) AS oid) AS n
