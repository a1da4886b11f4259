SELECT DISTINCT 'security policies', a.name
{table}
JOIN sys.security_predicates AS p ON p.target_object_id = o.object_id
JOIN sys.objects AS a ON a.object_id = p.object_id
