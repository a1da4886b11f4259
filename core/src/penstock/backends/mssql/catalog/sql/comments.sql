SELECT c.name, CAST(p.value AS nvarchar(4000))
{table}
JOIN sys.extended_properties AS p
    ON p.major_id = o.object_id AND p.class = 1 AND p.name = N'MS_Description'
LEFT JOIN sys.columns AS c ON c.object_id = p.major_id AND c.column_id = p.minor_id
WHERE (p.minor_id = 0 OR c.column_id IS NOT NULL)
