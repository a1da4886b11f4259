SELECT i.name
{table}
JOIN sys.indexes AS i ON i.object_id = o.object_id
WHERE i.type IN (2, 6) AND i.is_unique = 0 AND i.is_disabled = 0 AND i.is_hypothetical = 0
ORDER BY i.name
