-- What is missing for --mode upsert, as the words of a GRANT; and whether there may be temporary
-- tables in this database.
SELECT
    ARRAY(
        SELECT wanted FROM unnest(ARRAY['SELECT', 'UPDATE']) AS wanted
        WHERE NOT pg_catalog.has_table_privilege(%(table)s::regclass, wanted) AND EXISTS (
            SELECT FROM unnest(%(columns)s::text[]) AS written
            WHERE NOT pg_catalog.has_column_privilege(%(table)s::regclass, written, wanted)
        )
    ),
    pg_catalog.has_database_privilege(current_database(), 'TEMPORARY'),
    current_database()
