-- Extended statistics. A definition is "CREATE STATISTICS name", the text stored here, "FROM
-- table".
SELECT e.stxrelid::bigint, json_agg(json_build_object(
    'schema', n.nspname,
    'name', e.stxname,
    'target', {statistics_target},
    'body', pg_catalog.substr(
        d.text,
        pg_catalog.length(pg_catalog.format('CREATE STATISTICS %I.%I', n.nspname, e.stxname)) + 1,
        pg_catalog.length(d.text) - pg_catalog.length(pg_catalog.format(
            'CREATE STATISTICS %I.%I FROM %I.%I', n.nspname, e.stxname, tn.nspname, t.relname
        ))
    ),
    'comment', pg_catalog.obj_description(e.oid, 'pg_statistic_ext')
) ORDER BY e.stxname)
FROM pg_catalog.pg_statistic_ext AS e
JOIN pg_catalog.pg_namespace AS n ON n.oid = e.stxnamespace
JOIN pg_catalog.pg_class AS t ON t.oid = e.stxrelid
JOIN pg_catalog.pg_namespace AS tn ON tn.oid = t.relnamespace
CROSS JOIN LATERAL pg_catalog.pg_get_statisticsobjdef(e.oid) AS d (text)
WHERE e.stxrelid = ANY ({tables}::oid[])
GROUP BY e.stxrelid
