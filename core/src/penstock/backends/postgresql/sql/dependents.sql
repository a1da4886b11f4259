-- What would be lost with a table, or keeps it from being dropped, that is no part of it.
WITH mine (class, id) AS (
    SELECT 'pg_catalog.pg_class'::regclass, u.id FROM pg_catalog.unnest({tables}::oid[]) AS u (id)
    UNION ALL
    SELECT 'pg_catalog.pg_type'::regclass, t.oid
    FROM pg_catalog.pg_type AS t
    JOIN pg_catalog.pg_class AS c ON t.oid = c.reltype
    WHERE c.oid = ANY ({tables}::oid[])
    UNION ALL
    SELECT 'pg_catalog.pg_type'::regclass, t.typarray
    FROM pg_catalog.pg_type AS t
    JOIN pg_catalog.pg_class AS c ON t.oid = c.reltype
    WHERE c.oid = ANY ({tables}::oid[]) AND t.typarray <> 0
    UNION ALL
    SELECT 'pg_catalog.pg_class'::regclass, x.indexrelid
    FROM pg_catalog.pg_index AS x WHERE x.indrelid = ANY ({tables}::oid[])
    UNION ALL
    SELECT 'pg_catalog.pg_class'::regclass, d.objid
    FROM pg_catalog.pg_depend AS d
    JOIN pg_catalog.pg_class AS s ON s.oid = d.objid AND s.relkind = 'S'
    WHERE d.classid = 'pg_catalog.pg_class'::regclass
        AND d.refclassid = 'pg_catalog.pg_class'::regclass
        AND d.refobjid = ANY ({tables}::oid[]) AND d.deptype = ANY ({sequences}::"char"[])
    UNION ALL
    SELECT 'pg_catalog.pg_constraint'::regclass, k.oid
    FROM pg_catalog.pg_constraint AS k WHERE k.conrelid = ANY ({tables}::oid[])
), own (class, id) AS (
    SELECT class, id FROM mine
    UNION ALL
    SELECT 'pg_catalog.pg_attrdef'::regclass, a.oid
    FROM pg_catalog.pg_attrdef AS a WHERE a.adrelid = ANY ({tables}::oid[])
    UNION ALL
    SELECT 'pg_catalog.pg_trigger'::regclass, t.oid
    FROM pg_catalog.pg_trigger AS t WHERE t.tgrelid = ANY ({tables}::oid[])
    UNION ALL
    SELECT 'pg_catalog.pg_policy'::regclass, p.oid
    FROM pg_catalog.pg_policy AS p WHERE p.polrelid = ANY ({tables}::oid[])
    UNION ALL
    SELECT 'pg_catalog.pg_rewrite'::regclass, r.oid
    FROM pg_catalog.pg_rewrite AS r WHERE r.ev_class = ANY ({tables}::oid[])
    UNION ALL
    SELECT 'pg_catalog.pg_statistic_ext'::regclass, e.oid
    FROM pg_catalog.pg_statistic_ext AS e WHERE e.stxrelid = ANY ({tables}::oid[])
    UNION ALL
    SELECT 'pg_catalog.pg_publication_rel'::regclass, m.oid
    FROM pg_catalog.pg_publication_rel AS m WHERE m.prrelid = ANY ({tables}::oid[])
    UNION ALL
    -- What is undone before: see linked.sql.
    SELECT u.class, u.id
    FROM (
        VALUES
            ('pg_catalog.pg_constraint'::regclass), ('pg_catalog.pg_class'::regclass),
            ('pg_catalog.pg_attrdef'::regclass)
    ) AS k (class)
    CROSS JOIN LATERAL (SELECT k.class, id FROM pg_catalog.unnest({undone}::oid[]) AS x (id)) AS u
)
SELECT DISTINCT
    CASE d.classid
        WHEN 'pg_catalog.pg_rewrite'::regclass THEN (
            SELECT pg_catalog.pg_describe_object('pg_catalog.pg_class'::regclass, r.ev_class, 0)
            FROM pg_catalog.pg_rewrite AS r WHERE r.oid = d.objid
        )
        WHEN 'pg_catalog.pg_constraint'::regclass THEN (
            SELECT CASE WHEN k.contype = 'f'
                THEN pg_catalog.format('foreign key %I of %s', k.conname, k.conrelid::regclass)
                ELSE pg_catalog.pg_describe_object(d.classid, d.objid, d.objsubid) END
            FROM pg_catalog.pg_constraint AS k WHERE k.oid = d.objid
        )
        ELSE pg_catalog.pg_describe_object(d.classid, d.objid, d.objsubid)
    END
FROM pg_catalog.pg_depend AS d
JOIN mine ON mine.class = d.refclassid AND mine.id = d.refobjid
WHERE d.deptype = 'n'
    AND NOT EXISTS (SELECT FROM own WHERE own.class = d.classid AND own.id = d.objid)
UNION
SELECT 'extension ' || pg_catalog.quote_ident(e.extname)
FROM pg_catalog.pg_depend AS d
JOIN pg_catalog.pg_extension AS e ON e.oid = d.refobjid
WHERE d.classid = 'pg_catalog.pg_class'::regclass AND d.objid = ANY ({tables}::oid[])
    AND d.refclassid = 'pg_catalog.pg_extension'::regclass AND d.deptype = 'e'
ORDER BY 1
