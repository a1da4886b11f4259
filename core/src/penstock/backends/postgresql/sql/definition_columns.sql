-- Collations and storage are left out where they are the type's own.
SELECT c.oid::bigint, json_agg(json_build_object(
    'name', a.attname,
    'type', pg_catalog.format_type(a.atttypid, a.atttypmod),
    'type_oid', a.atttypid::bigint,
    'collation', CASE WHEN a.attcollation <> t.typcollation
        THEN pg_catalog.format('%I.%I', cn.nspname, co.collname) END,
    'not_null', a.attnotnull,
    'default', pg_catalog.pg_get_expr(d.adbin, d.adrelid),
    'generated', a.attgenerated::text,
    'identity', a.attidentity::text,
    'storage', CASE WHEN a.attstorage <> t.typstorage THEN a.attstorage::text END,
    'compression', {compression},
    'statistics', nullif(a.attstattarget, -1),
    'options', coalesce(a.attoptions, '{{}}'),
    'inherited', NOT a.attislocal,
    'comment', pg_catalog.col_description(c.oid, a.attnum)
) ORDER BY a.attnum)
FROM pg_catalog.pg_class AS c
JOIN pg_catalog.pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
JOIN pg_catalog.pg_type AS t ON t.oid = a.atttypid
LEFT JOIN pg_catalog.pg_attrdef AS d ON d.adrelid = c.oid AND d.adnum = a.attnum
LEFT JOIN pg_catalog.pg_collation AS co ON co.oid = a.attcollation
LEFT JOIN pg_catalog.pg_namespace AS cn ON cn.oid = co.collnamespace
WHERE c.oid = ANY ({tables}::oid[])
GROUP BY c.oid
