SELECT DISTINCT OBJECT_SCHEMA_NAME(d.referencing_id) + '.' + OBJECT_NAME(d.referencing_id)
{table}
JOIN sys.sql_expression_dependencies AS d ON d.referenced_id = o.object_id
    AND d.is_schema_bound_reference = 1 AND d.referencing_id <> o.object_id
JOIN sys.objects AS r ON r.object_id = d.referencing_id AND r.parent_object_id <> o.object_id
