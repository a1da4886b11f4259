-- How tables are partitioned, and what is bypassed when rows are loaded into a child directly.
SELECT
    c.oid::bigint,
    p.partstrat::text,
    p.partnatts,
    (
        SELECT a.attname FROM pg_catalog.pg_attribute AS a
        WHERE a.attrelid = c.oid AND a.attnum = p.partattrs[0]
    ),
    (
        SELECT pg_catalog.format_type(a.atttypid, NULL) FROM pg_catalog.pg_attribute AS a
        WHERE a.attrelid = c.oid AND a.attnum = p.partattrs[0]
    ),
    c.relispartition,
    pg_catalog.pg_get_partkeydef(c.oid),
    (
        SELECT coalesce(pg_catalog.array_agg(t.tgname ORDER BY t.tgname), '{{}}')
        FROM pg_catalog.pg_trigger AS t
        WHERE t.tgrelid = c.oid AND NOT t.tgisinternal AND t.tgenabled <> 'D' AND t.tgtype & 4 > 0
    ),
    (
        SELECT coalesce(pg_catalog.array_agg(b.pubname ORDER BY b.pubname), '{{}}')
        FROM pg_catalog.pg_publication AS b
        WHERE b.puballtables
            OR EXISTS (
                SELECT FROM pg_catalog.pg_publication_rel AS r
                WHERE r.prpubid = b.oid AND r.prrelid = c.oid
            )
            OR {published_schema}
    ),
    (
        SELECT coalesce(pg_catalog.array_agg(a.attname ORDER BY a.attnum), '{{}}')
        FROM pg_catalog.pg_attribute AS a
        WHERE a.attrelid = c.oid AND a.attidentity <> '' AND NOT a.attisdropped
    ),
    (
        SELECT pg_catalog.format('%I.%I', n.nspname, d.relname)
        FROM pg_catalog.pg_class AS d JOIN pg_catalog.pg_namespace AS n ON n.oid = d.relnamespace
        WHERE d.oid = p.partdefid
    )
FROM pg_catalog.pg_class AS c
JOIN pg_catalog.pg_partitioned_table AS p ON p.partrelid = c.oid
WHERE c.oid = ANY ({tables}::oid[])
