SELECT i.name, i.type, i.type_desc, i.is_unique, i.is_primary_key, i.is_unique_constraint,
    i.ignore_dup_key, i.is_disabled, i.filter_definition, k.is_system_named,
    c.name, x.is_descending_key, x.is_included_column, x.key_ordinal
{table}
JOIN sys.indexes AS i ON i.object_id = o.object_id
JOIN sys.index_columns AS x ON x.object_id = i.object_id AND x.index_id = i.index_id
JOIN sys.columns AS c ON c.object_id = x.object_id AND c.column_id = x.column_id
LEFT JOIN sys.key_constraints AS k
    ON k.parent_object_id = i.object_id AND k.unique_index_id = i.index_id
WHERE i.type > 0 AND i.is_hypothetical = 0
ORDER BY i.index_id, x.key_ordinal, x.index_column_id
