SELECT c.name, c.is_sparse, c.is_rowguidcol, k.definition, k.is_persisted,
    CAST(i.seed_value AS varchar(40)), CAST(i.increment_value AS varchar(40)),
    d.definition, d.name, d.is_system_named
{table}
JOIN sys.columns AS c ON c.object_id = o.object_id
LEFT JOIN sys.computed_columns AS k ON k.object_id = c.object_id AND k.column_id = c.column_id
LEFT JOIN sys.identity_columns AS i ON i.object_id = c.object_id AND i.column_id = c.column_id
LEFT JOIN sys.default_constraints AS d ON d.object_id = c.default_object_id
