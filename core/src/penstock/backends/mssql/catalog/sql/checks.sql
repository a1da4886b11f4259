SELECT k.name, k.is_system_named, k.definition, k.is_not_trusted, k.is_disabled
{table}
JOIN sys.check_constraints AS k ON k.parent_object_id = o.object_id
ORDER BY k.name
