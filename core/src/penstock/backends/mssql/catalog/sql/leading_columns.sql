SELECT c.name
{table}
JOIN sys.indexes AS i ON i.object_id = o.object_id
JOIN sys.index_columns AS x ON x.object_id = i.object_id AND x.index_id = i.index_id
JOIN sys.columns AS c ON c.object_id = x.object_id AND c.column_id = x.column_id
WHERE x.key_ordinal = 1 AND i.is_disabled = 0 AND i.has_filter = 0 AND i.type IN (1, 2)
ORDER BY i.index_id
