-- Sequences that give columns their values: sequences of identity columns, of serial columns, and
-- those named in a default.
SELECT DISTINCT
    u.relation::bigint,
    a.attname,
    n.nspname,
    c.relname,
    s.seqincrement,
    pg_catalog.has_sequence_privilege(c.oid, 'SELECT'),
    pg_catalog.has_sequence_privilege(c.oid, 'UPDATE')
FROM (
    SELECT d.objid AS sequence, d.refobjid AS relation, d.refobjsubid AS number
    FROM pg_catalog.pg_depend AS d
    WHERE d.classid = 'pg_catalog.pg_class'::regclass
        AND d.refclassid = 'pg_catalog.pg_class'::regclass
        AND d.refobjid = ANY ({tables}::oid[]) AND d.refobjsubid > 0 AND d.deptype IN ('a', 'i')
    UNION ALL
    SELECT d.refobjid, f.adrelid, f.adnum
    FROM pg_catalog.pg_attrdef AS f
    JOIN pg_catalog.pg_depend AS d
        ON d.classid = 'pg_catalog.pg_attrdef'::regclass AND d.objid = f.oid
        AND d.refclassid = 'pg_catalog.pg_class'::regclass AND d.deptype = 'n'
    WHERE f.adrelid = ANY ({tables}::oid[])
) AS u
JOIN pg_catalog.pg_class AS c ON c.oid = u.sequence AND c.relkind = 'S'
JOIN pg_catalog.pg_sequence AS s ON s.seqrelid = c.oid
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_attribute AS a ON a.attrelid = u.relation AND a.attnum = u.number
ORDER BY 1, 2, 3, 4
