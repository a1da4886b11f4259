SELECT p.state_desc, p.permission_name, c.name, USER_NAME(p.grantee_principal_id)
{table}
JOIN sys.database_permissions AS p ON p.class = 1 AND p.major_id = o.object_id
LEFT JOIN sys.columns AS c ON c.object_id = p.major_id AND c.column_id = p.minor_id
ORDER BY p.grantee_principal_id, p.type, p.minor_id
