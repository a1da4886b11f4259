-- Types and their components. "extension" is set if the type belongs to one.
SELECT t.oid::bigint, json_build_object(
    'oid', t.oid::bigint,
    'array_oid', t.typarray::bigint,
    'schema', n.nspname,
    'name', t.typname,
    'kind', t.typtype::text,
    'element', CASE WHEN t.typelem <> 0 AND t.typcategory = 'A' THEN t.typelem::bigint END,
    'relation', CASE WHEN rel.relkind <> 'c' THEN rel.oid::regclass::text END,
    'extension', (
        SELECT e.extname
        FROM pg_catalog.pg_depend AS d
        JOIN pg_catalog.pg_extension AS e ON e.oid = d.refobjid
        WHERE d.classid = 'pg_catalog.pg_type'::regclass AND d.objid = t.oid
            AND d.refclassid = 'pg_catalog.pg_extension'::regclass AND d.deptype = 'e'
    ),
    'comment', pg_catalog.obj_description(t.oid, 'pg_type'),
    'schema_comment', pg_catalog.obj_description(n.oid, 'pg_namespace'),
    'labels', (
        SELECT json_agg(e.enumlabel ORDER BY e.enumsortorder)
        FROM pg_catalog.pg_enum AS e WHERE e.enumtypid = t.oid
    ),
    'base', CASE WHEN t.typtype = 'd'
        THEN pg_catalog.format_type(t.typbasetype, t.typtypmod) END,
    'base_oid', nullif(t.typbasetype, 0)::bigint,
    'not_null', t.typnotnull,
    'default', t.typdefault,
    'collation', CASE WHEN t.typcollation <> base.typcollation
        THEN pg_catalog.format('%I.%I', cn.nspname, co.collname) END,
    'checks', (
        SELECT json_agg(json_build_object(
            'name', k.conname, 'definition', pg_catalog.pg_get_constraintdef(k.oid),
            'comment', pg_catalog.obj_description(k.oid, 'pg_constraint')
        ) ORDER BY k.conname)
        FROM pg_catalog.pg_constraint AS k WHERE k.contypid = t.oid AND k.contype = 'c'
    ),
    'attributes', (
        SELECT json_agg(json_build_object(
            'name', a.attname,
            'type', pg_catalog.format_type(a.atttypid, a.atttypmod),
            'type_oid', a.atttypid::bigint,
            'collation', CASE WHEN a.attcollation <> at.typcollation
                THEN pg_catalog.format('%I.%I', acn.nspname, ac.collname) END,
            'comment', pg_catalog.col_description(rel.oid, a.attnum)
        ) ORDER BY a.attnum)
        FROM pg_catalog.pg_attribute AS a
        JOIN pg_catalog.pg_type AS at ON at.oid = a.atttypid
        LEFT JOIN pg_catalog.pg_collation AS ac ON ac.oid = a.attcollation
        LEFT JOIN pg_catalog.pg_namespace AS acn ON acn.oid = ac.collnamespace
        WHERE a.attrelid = rel.oid AND rel.relkind = 'c' AND a.attnum > 0 AND NOT a.attisdropped
    ),
    'range', (
        SELECT json_build_object(
            'subtype', pg_catalog.format_type(r.rngsubtype, NULL),
            'subtype_oid', r.rngsubtype::bigint,
            'class', pg_catalog.format('%I.%I', ocn.nspname, oc.opcname),
            'collation', CASE WHEN r.rngcollation <> st.typcollation
                THEN pg_catalog.format('%I.%I', gcn.nspname, gc.collname) END,
            'canonical', nullif(r.rngcanonical::oid, 0)::regproc::text,
            'subdiff', nullif(r.rngsubdiff::oid, 0)::regproc::text,
            'multirange', (
                SELECT pg_catalog.format('%I.%I', mn.nspname, mt.typname)
                FROM pg_catalog.pg_type AS mt
                JOIN pg_catalog.pg_namespace AS mn ON mn.oid = mt.typnamespace
                WHERE mt.oid = {multirange}
            )
        )
        FROM pg_catalog.pg_range AS r
        JOIN pg_catalog.pg_type AS st ON st.oid = r.rngsubtype
        JOIN pg_catalog.pg_opclass AS oc ON oc.oid = r.rngsubopc
        JOIN pg_catalog.pg_namespace AS ocn ON ocn.oid = oc.opcnamespace
        LEFT JOIN pg_catalog.pg_collation AS gc ON gc.oid = r.rngcollation
        LEFT JOIN pg_catalog.pg_namespace AS gcn ON gcn.oid = gc.collnamespace
        WHERE r.rngtypid = t.oid
    ),
    'range_oid', (
        SELECT r.rngtypid::bigint FROM pg_catalog.pg_range AS r WHERE {multirange} = t.oid
    )
)
FROM pg_catalog.pg_type AS t
JOIN pg_catalog.pg_namespace AS n ON n.oid = t.typnamespace
LEFT JOIN pg_catalog.pg_class AS rel ON rel.oid = t.typrelid
LEFT JOIN pg_catalog.pg_type AS base ON base.oid = t.typbasetype
LEFT JOIN pg_catalog.pg_collation AS co ON co.oid = t.typcollation
LEFT JOIN pg_catalog.pg_namespace AS cn ON cn.oid = co.collnamespace
WHERE t.oid = ANY ({types}::oid[])
