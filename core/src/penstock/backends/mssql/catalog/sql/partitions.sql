-- Partition n lies between the boundaries n - 1 and n, whichever of them it includes.
SELECT p.partition_number, f.name, c.name, f.boundary_value_on_right,
    CASE WHEN CAST(SQL_VARIANT_PROPERTY(low.value, 'BaseType') AS nvarchar(128)) LIKE '%date%'
    THEN CONVERT(nvarchar(200), low.value, 121) ELSE CAST(low.value AS nvarchar(200)) END,
    CASE WHEN CAST(SQL_VARIANT_PROPERTY(high.value, 'BaseType') AS nvarchar(128)) LIKE '%date%'
    THEN CONVERT(nvarchar(200), high.value, 121) ELSE CAST(high.value AS nvarchar(200)) END,
    p.rows
{table}
JOIN sys.indexes AS i ON i.object_id = o.object_id AND i.index_id IN (0, 1)
JOIN sys.partition_schemes AS d ON d.data_space_id = i.data_space_id
JOIN sys.partition_functions AS f ON f.function_id = d.function_id
JOIN sys.index_columns AS x
    ON x.object_id = i.object_id AND x.index_id = i.index_id AND x.partition_ordinal = 1
JOIN sys.columns AS c ON c.object_id = x.object_id AND c.column_id = x.column_id
JOIN sys.partitions AS p ON p.object_id = i.object_id AND p.index_id = i.index_id
LEFT JOIN sys.partition_range_values AS low
    ON low.function_id = f.function_id AND low.boundary_id = p.partition_number - 1
LEFT JOIN sys.partition_range_values AS high
    ON high.function_id = f.function_id AND high.boundary_id = p.partition_number
ORDER BY p.partition_number
