-- The objects that prevent columns of a table from getting another type, by column.
SELECT a.attname, pg_catalog.string_agg(DISTINCT found.what, ', ')
FROM (
    SELECT d.refobjsubid AS attnum, 'view ' || r.ev_class::pg_catalog.regclass::text AS what
    FROM pg_catalog.pg_depend AS d
    JOIN pg_catalog.pg_rewrite AS r
        ON d.classid = 'pg_catalog.pg_rewrite'::pg_catalog.regclass AND r.oid = d.objid
    WHERE d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass
        AND d.refobjid = %(table)s::pg_catalog.regclass
    UNION ALL
    SELECT pg_catalog.unnest(p.partattrs), 'the partitioning'
    FROM pg_catalog.pg_partitioned_table AS p
    WHERE p.partrelid = %(table)s::pg_catalog.regclass
    UNION ALL
    SELECT d.refobjsubid, 'a computed column'
    FROM pg_catalog.pg_depend AS d
    JOIN pg_catalog.pg_attrdef AS f
        ON d.classid = 'pg_catalog.pg_attrdef'::pg_catalog.regclass AND f.oid = d.objid
    JOIN pg_catalog.pg_attribute AS g ON g.attrelid = f.adrelid AND g.attnum = f.adnum
    WHERE d.refobjid = %(table)s::pg_catalog.regclass AND g.attgenerated <> ''
        AND d.refobjsubid <> f.adnum
    UNION ALL
    -- Before PostgreSQL 15, the computed column itself depends on what it uses.
    SELECT d.refobjsubid, 'a computed column'
    FROM pg_catalog.pg_depend AS d
    JOIN pg_catalog.pg_attribute AS g ON g.attrelid = d.objid AND g.attnum = d.objsubid
    WHERE d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass
        AND d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass
        AND d.refobjid = %(table)s::pg_catalog.regclass AND g.attgenerated <> ''
        AND d.refobjsubid <> d.objsubid
) AS found
JOIN pg_catalog.pg_attribute AS a
    ON a.attrelid = %(table)s::pg_catalog.regclass AND a.attnum = found.attnum AND a.attnum > 0
GROUP BY a.attname
