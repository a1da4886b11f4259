SELECT OBJECT_SCHEMA_NAME(f.parent_object_id), OBJECT_NAME(f.parent_object_id)
{table}
JOIN sys.foreign_keys AS f ON f.referenced_object_id = o.object_id
