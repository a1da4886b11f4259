SELECT
    pg_catalog.pg_get_userbyid(c.relowner),
    pg_catalog.has_schema_privilege(c.relnamespace, 'USAGE'),
    ARRAY(
        SELECT wanted FROM unnest(%(table_privileges)s::text[]) AS wanted
        WHERE NOT pg_catalog.has_table_privilege(c.oid, wanted)
    ),
    pg_catalog.has_table_privilege(c.oid, 'INSERT') OR NOT EXISTS (
        SELECT FROM unnest(%(columns)s::text[]) AS written
        WHERE NOT pg_catalog.has_column_privilege(c.oid, written, 'INSERT')
    )
FROM pg_catalog.pg_class AS c
WHERE c.oid = %(table)s::regclass
