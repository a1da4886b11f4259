SELECT a.kind, a.name
{table}
JOIN (
    SELECT 'foreign keys' AS kind, parent_object_id AS id, CAST(name AS nvarchar(300)) AS name
        FROM sys.foreign_keys
    UNION ALL SELECT 'triggers' AS kind, parent_id AS id, CAST(name AS nvarchar(300)) AS name
        FROM sys.triggers
    UNION ALL SELECT 'column masks' AS kind, object_id AS id, CAST(name AS nvarchar(300)) AS name
        FROM sys.columns WHERE is_masked = 1
    UNION ALL SELECT 'full-text indexes' AS kind, object_id AS id, CAST(OBJECT_NAME(object_id) AS nvarchar(300)) AS name
        FROM sys.fulltext_indexes
    UNION ALL SELECT 'change tracking' AS kind, object_id AS id, CAST(OBJECT_NAME(object_id) AS nvarchar(300)) AS name
        FROM sys.change_tracking_tables
    UNION ALL SELECT 'table options' AS kind, object_id AS id, CAST('SYSTEM_VERSIONING' AS nvarchar(300)) AS name
        FROM sys.tables WHERE temporal_type = 2
    UNION ALL SELECT 'table options' AS kind, object_id AS id, CAST('MEMORY_OPTIMIZED' AS nvarchar(300)) AS name
        FROM sys.tables WHERE is_memory_optimized = 1
    UNION ALL SELECT 'table options' AS kind, object_id AS id, CAST('REPLICATION' AS nvarchar(300)) AS name
        FROM sys.tables WHERE is_replicated = 1
    UNION ALL SELECT 'table options' AS kind, object_id AS id, CAST('CHANGE DATA CAPTURE' AS nvarchar(300)) AS name
        FROM sys.tables WHERE is_tracked_by_cdc = 1
    UNION ALL SELECT 'partitioning' AS kind, i.object_id AS id, CAST(p.name AS nvarchar(300)) AS name
        FROM sys.indexes AS i JOIN sys.partition_schemes AS p ON p.data_space_id = i.data_space_id AND i.index_id IN (0, 1)
    UNION ALL SELECT 'grants' AS kind, major_id AS id, CAST(state_desc + ' ' + permission_name + ' TO ' + USER_NAME(grantee_principal_id) AS nvarchar(300)) AS name
        FROM sys.database_permissions WHERE class = 1
    UNION ALL SELECT 'comments' AS kind, major_id AS id, CAST(name AS nvarchar(300)) AS name
        FROM sys.extended_properties WHERE class = 1
    UNION ALL SELECT 'comments of indexes' AS kind, major_id AS id, CAST(name AS nvarchar(300)) AS name
        FROM sys.extended_properties WHERE class = 7
) AS a ON a.id = o.object_id
ORDER BY a.kind, a.name
