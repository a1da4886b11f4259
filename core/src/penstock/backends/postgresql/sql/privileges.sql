-- The owners of tables, and the privileges that the session's user lacks.
SELECT
    asked.place,
    pg_catalog.pg_get_userbyid(c.relowner),
    pg_catalog.has_schema_privilege(c.relnamespace, 'USAGE'),
    ARRAY(
        SELECT wanted
        FROM pg_catalog.unnest(ARRAY['SELECT', 'INSERT', 'DELETE', 'TRUNCATE']) AS wanted
        WHERE NOT pg_catalog.has_table_privilege(c.oid, wanted)
    ),
    ARRAY(
        SELECT a.attname::text FROM pg_catalog.pg_attribute AS a
        WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
            AND NOT pg_catalog.has_column_privilege(c.oid, a.attnum, 'INSERT')
    )
FROM pg_catalog.unnest(%(tables)s::text[]) WITH ORDINALITY AS asked (name, place)
JOIN pg_catalog.pg_class AS c ON c.oid = pg_catalog.to_regclass(asked.name)
