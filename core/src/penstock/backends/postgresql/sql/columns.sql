-- The columns of relations in order; for a relation without columns, one row without a name.
SELECT
    c.oid::bigint,
    a.attname,
    a.atttypid,
    a.atttypmod,
    NOT a.attnotnull,
    a.attgenerated <> '',
    a.atthasdef OR a.attidentity <> '',
    greatest(a.attndims, t.typndims),
    a.attnum,
    c.oid::bigint,
    CASE WHEN a.attcollation <> t.typcollation THEN (
        SELECT pg_catalog.format('%%I.%%I', n.nspname, o.collname)
        FROM pg_catalog.pg_collation AS o
        JOIN pg_catalog.pg_namespace AS n ON n.oid = o.collnamespace
        WHERE o.oid = a.attcollation
    ) END,
    CASE WHEN a.attgenerated <> '' THEN (
        SELECT pg_catalog.pg_get_expr(d.adbin, d.adrelid)
        FROM pg_catalog.pg_attrdef AS d WHERE d.adrelid = a.attrelid AND d.adnum = a.attnum
    ) END
FROM pg_catalog.pg_class AS c
LEFT JOIN (
    pg_catalog.pg_attribute AS a JOIN pg_catalog.pg_type AS t ON t.oid = a.atttypid
) ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE c.oid = ANY (%(oids)s::oid[])
ORDER BY c.oid, a.attnum
