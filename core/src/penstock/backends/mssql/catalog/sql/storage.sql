SELECT i.type, t.is_memory_optimized
{table}
JOIN sys.tables AS t ON t.object_id = o.object_id
JOIN sys.indexes AS i ON i.object_id = o.object_id AND i.index_id IN (0, 1)
