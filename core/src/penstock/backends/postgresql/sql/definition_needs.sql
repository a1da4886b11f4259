-- The objects that a table's defaults, constraints, indexes and statistics use, unless they come
-- with the server: functions, collations, operator classes, other tables; not types and sequences.
-- "address" is the argument by which pg_get_object_address finds the object.
WITH parts (relation, class, id) AS (
    SELECT oid, 'pg_catalog.pg_class'::regclass, oid FROM unnest({tables}::oid[]) AS asked (oid)
    UNION ALL
    SELECT f.adrelid, 'pg_catalog.pg_attrdef'::regclass, f.oid
    FROM pg_catalog.pg_attrdef AS f WHERE f.adrelid = ANY ({tables}::oid[])
    UNION ALL
    SELECT k.conrelid, 'pg_catalog.pg_constraint'::regclass, k.oid
    FROM pg_catalog.pg_constraint AS k
    WHERE k.conrelid = ANY ({tables}::oid[]) AND k.contype <> 'f'
    UNION ALL
    -- The needs of the types that are created with the tables.
    SELECT made.relation, 'pg_catalog.pg_constraint'::regclass, k.oid
    FROM unnest({types_of}::oid[], {types}::oid[]) AS made (relation, type)
    JOIN pg_catalog.pg_constraint AS k ON k.contypid = made.type
    UNION ALL
    SELECT x.indrelid, 'pg_catalog.pg_class'::regclass, x.indexrelid
    FROM pg_catalog.pg_index AS x WHERE x.indrelid = ANY ({tables}::oid[])
    UNION ALL
    SELECT e.stxrelid, 'pg_catalog.pg_statistic_ext'::regclass, e.oid
    FROM pg_catalog.pg_statistic_ext AS e WHERE e.stxrelid = ANY ({tables}::oid[])
), needed AS (
    SELECT DISTINCT parts.relation, d.refclassid AS class, d.refobjid AS id
    FROM parts
    JOIN pg_catalog.pg_depend AS d ON d.classid = parts.class AND d.objid = parts.id
    LEFT JOIN pg_catalog.pg_class AS c
        ON d.refclassid = 'pg_catalog.pg_class'::regclass AND c.oid = d.refobjid
    -- Before PostgreSQL 15, a computed column depends like a part on what it uses.
    WHERE (d.deptype = 'n' OR d.deptype = 'a' AND d.objsubid > 0)
        AND d.refclassid NOT IN (
            'pg_catalog.pg_type'::regclass, 'pg_catalog.pg_namespace'::regclass,
            'pg_catalog.pg_constraint'::regclass, 'pg_catalog.pg_extension'::regclass
        )
        AND NOT EXISTS (
            SELECT FROM parts AS own
            WHERE own.relation = parts.relation
                AND own.class = d.refclassid AND own.id = d.refobjid
        )
        AND coalesce(c.relkind NOT IN ('S', 'i', 'I', 't'), true)
        -- Parents are not created.
        AND NOT (
            parts.class = 'pg_catalog.pg_class'::regclass
            AND d.refclassid = 'pg_catalog.pg_class'::regclass
        )
)
SELECT needed.relation::bigint, json_agg(json_build_object(
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
) ORDER BY i.type, i.identity)
FROM needed
CROSS JOIN LATERAL pg_catalog.pg_identify_object(needed.class, needed.id, 0) AS i
CROSS JOIN LATERAL pg_catalog.pg_identify_object_as_address(needed.class, needed.id, 0) AS a
GROUP BY needed.relation
