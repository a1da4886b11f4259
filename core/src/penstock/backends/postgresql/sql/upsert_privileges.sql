-- The privileges missing for --mode upsert, by the position of each table: columns that may not be
-- read, columns that may not be updated, columns that are GENERATED ALWAYS AS IDENTITY, and whether
-- temporary tables may be created in this database.
SELECT
    asked.place,
    ARRAY(
        SELECT a.attname::text FROM pg_catalog.pg_attribute AS a
        WHERE a.attrelid = asked.name::regclass AND a.attnum > 0 AND NOT a.attisdropped
            AND NOT pg_catalog.has_column_privilege(a.attrelid, a.attnum, 'SELECT')
    ),
    ARRAY(
        SELECT a.attname::text FROM pg_catalog.pg_attribute AS a
        WHERE a.attrelid = asked.name::regclass AND a.attnum > 0 AND NOT a.attisdropped
            AND NOT pg_catalog.has_column_privilege(a.attrelid, a.attnum, 'UPDATE')
    ),
    ARRAY(
        SELECT a.attname::text FROM pg_catalog.pg_attribute AS a
        WHERE a.attrelid = asked.name::regclass AND a.attidentity = 'a' AND NOT a.attisdropped
    ),
    pg_catalog.has_database_privilege(current_database(), 'TEMPORARY'),
    current_database()
FROM pg_catalog.unnest(%(tables)s::text[]) WITH ORDINALITY AS asked (name, place)
