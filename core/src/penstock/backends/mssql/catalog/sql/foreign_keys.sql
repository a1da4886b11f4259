SELECT f.name, OBJECT_SCHEMA_NAME(f.referenced_object_id),
    OBJECT_NAME(f.referenced_object_id), f.delete_referential_action_desc,
    f.update_referential_action_desc, f.is_disabled, f.is_not_trusted, m.name, c.name
{table}
JOIN sys.foreign_keys AS f ON f.parent_object_id = o.object_id
JOIN sys.foreign_key_columns AS x ON x.constraint_object_id = f.object_id
JOIN sys.columns AS m ON m.object_id = x.parent_object_id AND m.column_id = x.parent_column_id
JOIN sys.columns AS c
    ON c.object_id = x.referenced_object_id AND c.column_id = x.referenced_column_id
ORDER BY f.name, x.constraint_column_id
