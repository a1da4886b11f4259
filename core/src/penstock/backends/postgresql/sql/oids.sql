-- The object ids of relations that exist in schemas that this user may use.
SELECT asked.place::int, c.oid::bigint
FROM unnest(%(schemas)s::name[], %(names)s::name[]) WITH ORDINALITY AS asked (schema, name, place)
JOIN pg_catalog.pg_namespace AS n ON n.nspname = asked.schema
JOIN pg_catalog.pg_class AS c ON c.relnamespace = n.oid AND c.relname = asked.name
WHERE pg_catalog.has_schema_privilege(n.oid, 'USAGE')
