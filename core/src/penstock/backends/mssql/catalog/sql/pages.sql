SELECT SUM(a.total_pages)
{table}
JOIN sys.partitions AS p ON p.object_id = o.object_id AND p.index_id IN (0, 1)
JOIN sys.allocation_units AS a ON a.container_id = p.hobt_id
GROUP BY o.object_id
