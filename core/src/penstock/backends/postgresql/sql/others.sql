-- Objects that are not tables, in the order in which they can be created: kind, schema, name,
-- statement.
WITH own AS (
    SELECT n.oid, n.nspname FROM pg_catalog.pg_namespace AS n
    WHERE n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
), found AS (
    SELECT 1 AS position, 'functions' AS kind, own.nspname AS schema, p.proname AS name,
        'pg_proc'::regclass AS class, p.oid,
        CASE WHEN p.prokind <> 'a' THEN rtrim(pg_catalog.pg_get_functiondef(p.oid), E' \n') || ';'
        ELSE '' END AS remedy
    FROM pg_catalog.pg_proc AS p JOIN own ON own.oid = p.pronamespace
    UNION ALL
    SELECT 2, 'sequences', own.nspname, c.relname, 'pg_class'::regclass, c.oid,
        pg_catalog.format(
            'CREATE SEQUENCE %I.%I AS %s INCREMENT BY %s MINVALUE %s MAXVALUE %s START WITH %s'
            ' CACHE %s%s;',
            own.nspname, c.relname, pg_catalog.format_type(s.seqtypid, NULL), s.seqincrement,
            s.seqmin, s.seqmax, s.seqstart, s.seqcache, CASE WHEN s.seqcycle THEN ' CYCLE' ELSE '' END
        )
    FROM pg_catalog.pg_class AS c
    JOIN own ON own.oid = c.relnamespace
    JOIN pg_catalog.pg_sequence AS s ON s.seqrelid = c.oid
    -- Sequences of columns and of defaults belong to tables.
    WHERE NOT EXISTS (
        SELECT FROM pg_catalog.pg_depend AS d
        WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid
            AND d.refclassid = 'pg_class'::regclass AND d.deptype IN ('a', 'i')
    ) AND NOT EXISTS (
        SELECT FROM pg_catalog.pg_depend AS d
        WHERE d.classid = 'pg_attrdef'::regclass AND d.refclassid = 'pg_class'::regclass
            AND d.refobjid = c.oid
    )
    UNION ALL
    SELECT 3, CASE c.relkind WHEN 'v' THEN 'views' WHEN 'm' THEN 'materialized views'
            ELSE 'foreign tables' END,
        own.nspname, c.relname, 'pg_class'::regclass, c.oid,
        CASE c.relkind
            WHEN 'v' THEN pg_catalog.format(
                'CREATE VIEW %I.%I AS%s%s', own.nspname, c.relname, E'\n',
                pg_catalog.pg_get_viewdef(c.oid)
            )
            WHEN 'm' THEN pg_catalog.format(
                'CREATE MATERIALIZED VIEW %I.%I AS%s%s', own.nspname, c.relname, E'\n',
                pg_catalog.pg_get_viewdef(c.oid)
            )
            ELSE ''
        END
    FROM pg_catalog.pg_class AS c JOIN own ON own.oid = c.relnamespace
    WHERE c.relkind IN ('v', 'm', 'f')
)
SELECT f.kind, f.schema, f.name, f.remedy
FROM found AS f
WHERE NOT EXISTS (
    SELECT FROM pg_catalog.pg_depend AS d
    WHERE d.classid = f.class AND d.objid = f.oid AND d.objsubid = 0 AND d.deptype = 'e'
)
ORDER BY f.position, f.oid
