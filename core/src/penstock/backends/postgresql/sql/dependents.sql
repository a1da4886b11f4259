-- Objects that are not part of the tables and would be lost with them, or prevent dropping them.
-- "place" is the position of the table in question, of which these are the parts; "linked" is the
-- object id of a link that may be removed first, see linked.sql.
WITH asked (place, id) AS MATERIALIZED (
    SELECT * FROM ROWS FROM (
        pg_catalog.unnest({places}::bigint[]), pg_catalog.unnest({tables}::oid[])
    ) AS u
), mine (place, class, id) AS MATERIALIZED (
    SELECT asked.place, 'pg_catalog.pg_class'::regclass, asked.id FROM asked
    UNION ALL
    SELECT asked.place, 'pg_catalog.pg_type'::regclass, c.reltype
    FROM asked JOIN pg_catalog.pg_class AS c ON c.oid = asked.id
    WHERE c.reltype <> 0
    UNION ALL
    SELECT asked.place, 'pg_catalog.pg_type'::regclass, t.typarray
    FROM asked
    JOIN pg_catalog.pg_class AS c ON c.oid = asked.id
    JOIN pg_catalog.pg_type AS t ON t.oid = c.reltype
    WHERE t.typarray <> 0
    UNION ALL
    SELECT asked.place, 'pg_catalog.pg_class'::regclass, x.indexrelid
    FROM asked JOIN pg_catalog.pg_index AS x ON x.indrelid = asked.id
    UNION ALL
    SELECT asked.place, 'pg_catalog.pg_class'::regclass, d.objid
    FROM asked
    JOIN pg_catalog.pg_depend AS d ON d.refobjid = asked.id
    JOIN pg_catalog.pg_class AS s ON s.oid = d.objid AND s.relkind = 'S'
    WHERE d.classid = 'pg_catalog.pg_class'::regclass
        AND d.refclassid = 'pg_catalog.pg_class'::regclass
        AND d.deptype = ANY ({sequences}::"char"[])
    UNION ALL
    SELECT asked.place, 'pg_catalog.pg_constraint'::regclass, k.oid
    FROM asked JOIN pg_catalog.pg_constraint AS k ON k.conrelid = asked.id
), own (place, class, id) AS MATERIALIZED (
    SELECT place, class, id FROM mine
    UNION ALL
    SELECT asked.place, 'pg_catalog.pg_attrdef'::regclass, a.oid
    FROM asked JOIN pg_catalog.pg_attrdef AS a ON a.adrelid = asked.id
    UNION ALL
    SELECT asked.place, 'pg_catalog.pg_trigger'::regclass, t.oid
    FROM asked JOIN pg_catalog.pg_trigger AS t ON t.tgrelid = asked.id
    UNION ALL
    SELECT asked.place, 'pg_catalog.pg_policy'::regclass, p.oid
    FROM asked JOIN pg_catalog.pg_policy AS p ON p.polrelid = asked.id
    UNION ALL
    SELECT asked.place, 'pg_catalog.pg_rewrite'::regclass, r.oid
    FROM asked JOIN pg_catalog.pg_rewrite AS r ON r.ev_class = asked.id
    UNION ALL
    SELECT asked.place, 'pg_catalog.pg_statistic_ext'::regclass, e.oid
    FROM asked JOIN pg_catalog.pg_statistic_ext AS e ON e.stxrelid = asked.id
    UNION ALL
    SELECT asked.place, 'pg_catalog.pg_publication_rel'::regclass, m.oid
    FROM asked JOIN pg_catalog.pg_publication_rel AS m ON m.prrelid = asked.id
)
SELECT DISTINCT
    mine.place,
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
    END,
    CASE
        WHEN d.classid IN (
            'pg_catalog.pg_constraint'::regclass, 'pg_catalog.pg_class'::regclass,
            'pg_catalog.pg_attrdef'::regclass
        ) THEN d.objid
    END
FROM mine
JOIN pg_catalog.pg_depend AS d ON d.refclassid = mine.class AND d.refobjid = mine.id
WHERE d.deptype = 'n'
    AND NOT EXISTS (
        SELECT FROM own
        WHERE own.place = mine.place AND own.class = d.classid AND own.id = d.objid
    )
UNION
SELECT asked.place, 'extension ' || pg_catalog.quote_ident(e.extname), NULL
FROM asked
JOIN pg_catalog.pg_depend AS d ON d.objid = asked.id
JOIN pg_catalog.pg_extension AS e ON e.oid = d.refobjid
WHERE d.classid = 'pg_catalog.pg_class'::regclass
    AND d.refclassid = 'pg_catalog.pg_extension'::regclass AND d.deptype = 'e'
ORDER BY 1, 2
