-- What a table's defaults, constraints, indexes and statistics are made of that does not come with the
-- server, and that is neither a type nor a sequence: functions, collations, operator classes, other
-- tables. "address" is what pg_get_object_address finds it by.
WITH parts (class, id) AS (
    SELECT 'pg_catalog.pg_class'::regclass, {table}::oid
    UNION ALL
    SELECT 'pg_catalog.pg_attrdef'::regclass, f.oid
    FROM pg_catalog.pg_attrdef AS f WHERE f.adrelid = {table}
    UNION ALL
    SELECT 'pg_catalog.pg_constraint'::regclass, k.oid
    FROM pg_catalog.pg_constraint AS k
    WHERE (k.conrelid = {table} AND k.contype <> 'f') OR k.contypid = ANY ({types}::oid[])
    UNION ALL
    SELECT 'pg_catalog.pg_class'::regclass, x.indexrelid
    FROM pg_catalog.pg_index AS x WHERE x.indrelid = {table}
    UNION ALL
    SELECT 'pg_catalog.pg_statistic_ext'::regclass, e.oid
    FROM pg_catalog.pg_statistic_ext AS e WHERE e.stxrelid = {table}
), needed AS (
    SELECT DISTINCT d.refclassid AS class, d.refobjid AS id
    FROM parts
    JOIN pg_catalog.pg_depend AS d ON d.classid = parts.class AND d.objid = parts.id
    LEFT JOIN pg_catalog.pg_class AS c
        ON d.refclassid = 'pg_catalog.pg_class'::regclass AND c.oid = d.refobjid
    WHERE d.deptype = 'n'
        AND d.refclassid NOT IN (
            'pg_catalog.pg_type'::regclass, 'pg_catalog.pg_namespace'::regclass,
            'pg_catalog.pg_constraint'::regclass, 'pg_catalog.pg_extension'::regclass
        )
        AND NOT EXISTS (
            SELECT FROM parts AS own WHERE own.class = d.refclassid AND own.id = d.refobjid
        )
        AND coalesce(c.relkind NOT IN ('S', 'i', 'I', 't'), true)
        -- Parents are no part of what is made.
        AND NOT (
            parts.class = 'pg_catalog.pg_class'::regclass
            AND d.refclassid = 'pg_catalog.pg_class'::regclass
        )
)
SELECT coalesce(json_agg(json_build_object(
    'kind', i.type,
    'name', i.identity,
    'address', json_build_array(a.type, a.object_names, a.object_args),
    'extension', (
        SELECT e.extname
        FROM pg_catalog.pg_depend AS d
        JOIN pg_catalog.pg_extension AS e ON e.oid = d.refobjid
        WHERE d.classid = needed.class AND d.objid = needed.id
            AND d.refclassid = 'pg_catalog.pg_extension'::regclass AND d.deptype = 'e'
    )
) ORDER BY i.type, i.identity), '[]')
FROM needed
CROSS JOIN LATERAL pg_catalog.pg_identify_object(needed.class, needed.id, 0) AS i
CROSS JOIN LATERAL pg_catalog.pg_identify_object_as_address(needed.class, needed.id, 0) AS a
