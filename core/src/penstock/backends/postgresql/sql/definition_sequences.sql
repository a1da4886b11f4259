-- Sequences that a column owns: those of serial and identity columns.
SELECT d.refobjid::bigint, json_agg(json_build_object(
    'schema', n.nspname,
    'name', c.relname,
    'written', pg_catalog.format('%L::regclass', pg_catalog.format('%I.%I', n.nspname, c.relname)),
    'column', a.attname,
    'identity', d.deptype = 'i',
    'persistence', c.relpersistence::text,
    'type', pg_catalog.format_type(s.seqtypid, NULL),
    'start', s.seqstart,
    'increment', s.seqincrement,
    'min', s.seqmin,
    'max', s.seqmax,
    'cache', s.seqcache,
    'cycle', s.seqcycle,
    'grants', (
        SELECT coalesce(json_agg(json_build_array(
            g.privilege_type,
            CASE WHEN g.grantee = 0 THEN 'PUBLIC'
                ELSE pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(g.grantee)) END,
            g.is_grantable
        )), '[]')
        FROM pg_catalog.aclexplode(c.relacl) AS g WHERE g.grantee <> c.relowner
    ),
    'readable', pg_catalog.has_sequence_privilege(c.oid, 'SELECT'),
    'comment', pg_catalog.obj_description(c.oid, 'pg_class')
) ORDER BY a.attnum)
FROM pg_catalog.pg_depend AS d
JOIN pg_catalog.pg_class AS c ON c.oid = d.objid AND c.relkind = 'S'
JOIN pg_catalog.pg_sequence AS s ON s.seqrelid = c.oid
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_attribute AS a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
WHERE d.classid = 'pg_catalog.pg_class'::regclass
    AND d.refclassid = 'pg_catalog.pg_class'::regclass
    AND d.refobjid = ANY ({tables}::oid[]) AND d.deptype IN ('a', 'i')
GROUP BY d.refobjid
