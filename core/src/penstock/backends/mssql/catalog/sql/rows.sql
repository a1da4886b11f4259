SELECT SUM(p.rows)
{table}
JOIN sys.partitions AS p ON p.object_id = o.object_id AND p.index_id IN (0, 1)
GROUP BY o.object_id
