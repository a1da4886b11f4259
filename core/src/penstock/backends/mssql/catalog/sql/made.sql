SELECT o.object_id, CONVERT(varchar(40), t.create_date, 121)
{table}
JOIN sys.tables AS t ON t.object_id = o.object_id
