-- The catalog of Babelfish has other tables' numbers, too.
SELECT i.name, CAST(i.seed_value AS varchar(40)), CAST(i.increment_value AS varchar(40)),
    CASE WHEN i.last_value IS NOT NULL
    THEN IDENT_CURRENT(QUOTENAME(OBJECT_SCHEMA_NAME(o.object_id)) + '.'
    + QUOTENAME(OBJECT_NAME(o.object_id))) END
{table}
JOIN sys.identity_columns AS i ON i.object_id = o.object_id
