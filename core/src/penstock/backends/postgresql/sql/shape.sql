-- A digest of everything that a table consists of, which shows whether it has been changed.
SELECT pg_catalog.md5(pg_catalog.concat_ws(
    E'\n',
    c.relowner, c.relacl, c.reloptions, c.relreplident, c.relrowsecurity, c.relforcerowsecurity,
    (
        SELECT pg_catalog.string_agg(pg_catalog.concat_ws(
            ' ', a.attname, a.atttypid, a.atttypmod, a.attnotnull, a.attidentity, a.attgenerated,
            a.attacl, pg_catalog.pg_get_expr(d.adbin, d.adrelid)
        ), E'\n' ORDER BY a.attnum)
        FROM pg_catalog.pg_attribute AS a
        LEFT JOIN pg_catalog.pg_attrdef AS d ON d.adrelid = c.oid AND d.adnum = a.attnum
        WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
    ),
    (
        SELECT pg_catalog.string_agg(x.definition, E'\n' ORDER BY x.definition COLLATE "C")
        FROM (
            SELECT pg_catalog.pg_get_indexdef(i.indexrelid)
            FROM pg_catalog.pg_index AS i WHERE i.indrelid = c.oid AND i.indisvalid
            UNION ALL
            SELECT k.conname || ' ' || pg_catalog.pg_get_constraintdef(k.oid)
            FROM pg_catalog.pg_constraint AS k
            WHERE k.conrelid = c.oid AND k.contype IN ('c', 'f', 'n', 'p', 'u', 'x')
            UNION ALL
            SELECT pg_catalog.pg_get_triggerdef(t.oid) || ' ' || t.tgenabled::text
            FROM pg_catalog.pg_trigger AS t WHERE t.tgrelid = c.oid AND NOT t.tgisinternal
            UNION ALL
            SELECT pg_catalog.concat_ws(
                ' ', p.polname, p.polcmd, p.polroles,
                pg_catalog.pg_get_expr(p.polqual, c.oid),
                pg_catalog.pg_get_expr(p.polwithcheck, c.oid)
            )
            FROM pg_catalog.pg_policy AS p WHERE p.polrelid = c.oid
            UNION ALL
            SELECT pg_catalog.format('rule %s', r.rulename)
            FROM pg_catalog.pg_rewrite AS r WHERE r.ev_class = c.oid
            UNION ALL
            SELECT pg_catalog.format('publication %s', m.prpubid)
            FROM pg_catalog.pg_publication_rel AS m WHERE m.prrelid = c.oid
        ) AS x (definition)
    )
))
FROM pg_catalog.pg_class AS c
WHERE c.oid = pg_catalog.to_regclass({table})
