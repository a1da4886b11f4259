SELECT c.name, t.name, c.max_length, c.precision, c.scale, c.is_nullable, c.is_computed,
    c.is_identity, c.default_object_id, c.collation_name,
    CAST(COLLATIONPROPERTY(c.collation_name, 'CodePage') AS int), c.object_id, c.column_id,
    k.definition
{table}
JOIN sys.columns AS c ON c.object_id = o.object_id
JOIN sys.types AS t ON t.user_type_id = CASE WHEN c.system_type_id IN
    (SELECT system_type_id FROM sys.types WHERE user_type_id = system_type_id)
    THEN c.system_type_id ELSE c.user_type_id END
LEFT JOIN sys.computed_columns AS k ON k.object_id = c.object_id AND k.column_id = c.column_id
ORDER BY c.column_id
