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
    c.oid::bigint
FROM pg_catalog.pg_class AS c
LEFT JOIN (
    pg_catalog.pg_attribute AS a JOIN pg_catalog.pg_type AS t ON t.oid = a.atttypid
) ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
WHERE c.oid = ANY (%(oids)s::oid[])
ORDER BY c.oid, a.attnum
