-- Sequences that a table's defaults use and that none of its columns owns.
SELECT u.relation::bigint, json_agg(json_build_object(
    'schema', n.nspname,
    'name', c.relname,
    'written', pg_catalog.format('%L::regclass', pg_catalog.format('%I.%I', n.nspname, c.relname)),
    'column', u.attname,
    'identity', false,
    'persistence', c.relpersistence::text,
    'type', pg_catalog.format_type(s.seqtypid, NULL),
    'start', s.seqstart,
    'increment', s.seqincrement,
    'min', s.seqmin,
    'max', s.seqmax,
    'cache', s.seqcache,
    'cycle', s.seqcycle,
    'grants', '[]'::json,
    'readable', pg_catalog.has_sequence_privilege(c.oid, 'SELECT'),
    'comment', pg_catalog.obj_description(c.oid, 'pg_class')
) ORDER BY u.attnum, n.nspname, c.relname)
FROM (
    SELECT DISTINCT f.adrelid AS relation, a.attnum, a.attname, d.refobjid AS sequence
    FROM pg_catalog.pg_attrdef AS f
    JOIN pg_catalog.pg_depend AS d
        ON d.classid = 'pg_catalog.pg_attrdef'::regclass AND d.objid = f.oid
        AND d.refclassid = 'pg_catalog.pg_class'::regclass AND d.deptype = 'n'
    JOIN pg_catalog.pg_attribute AS a ON a.attrelid = f.adrelid AND a.attnum = f.adnum
    WHERE f.adrelid = ANY ({tables}::oid[])
) AS u
JOIN pg_catalog.pg_class AS c ON c.oid = u.sequence AND c.relkind = 'S'
JOIN pg_catalog.pg_sequence AS s ON s.seqrelid = c.oid
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE NOT EXISTS (
    SELECT FROM pg_catalog.pg_depend AS d
    WHERE d.classid = 'pg_catalog.pg_class'::regclass AND d.objid = c.oid
        AND d.refclassid = 'pg_catalog.pg_class'::regclass
        AND d.refobjid = u.relation AND d.deptype IN ('a', 'i')
)
GROUP BY u.relation
