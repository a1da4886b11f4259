SELECT p.name, CAST(p.value AS nvarchar(4000)), c.name
{table}
JOIN sys.extended_properties AS p ON p.class = 1 AND p.major_id = o.object_id
LEFT JOIN sys.columns AS c ON c.object_id = p.major_id AND c.column_id = p.minor_id
