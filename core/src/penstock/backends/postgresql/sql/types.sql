-- Types, each with the object ids of its components: element, base type, attributes, subtype,
-- range. A type that belongs to an extension is identified by it, whatever its schema. Components
-- are not looked up here: a recursive query would be estimated as so expensive that a server with
-- JIT compiles it, which takes a third of a second.
SELECT
    t.oid,
    n.nspname,
    t.typname,
    CASE
        WHEN t.typtype = 'b' AND t.typsend = 'pg_catalog.array_send'::regproc THEN 'array'
        WHEN t.typtype = 'd' THEN 'domain'
        WHEN t.typtype = 'e' THEN 'enum'
        WHEN t.typtype = 'c' THEN 'composite'
        WHEN t.typtype = 'r' THEN 'range'
        WHEN t.typtype = 'm' THEN 'multirange'
        WHEN t.typtype = 'p' THEN 'pseudo'
        ELSE 'base'
    END,
    t.typcategory::text,
    t.typsend <> 0 AND t.typreceive <> 0,
    (SELECT p.proname FROM pg_catalog.pg_proc AS p WHERE p.oid = t.typinput),
    (
        SELECT e.extname
        FROM pg_catalog.pg_depend AS d
        JOIN pg_catalog.pg_extension AS e ON e.oid = d.refobjid
        WHERE d.deptype = 'e' AND d.refclassid = 'pg_catalog.pg_extension'::regclass
            AND (d.classid, d.objid) IN (
                ('pg_catalog.pg_type'::regclass, t.oid),
                ('pg_catalog.pg_class'::regclass, t.typrelid)
            )
        LIMIT 1
    ),
    -- With -1 instead of NULL: "character" and "bit" alone would mean a length of 1.
    CASE
        WHEN n.nspname = 'pg_catalog' THEN pg_catalog.format_type(t.oid, -1)
        ELSE pg_catalog.format('%%I.%%I', n.nspname, t.typname)
    END,
    NOT t.typnotnull,
    t.typtypmod,
    CASE
        WHEN t.typtype = 'd' THEN ARRAY[t.typbasetype]
        WHEN t.typtype = 'b' AND (
            t.typsend = 'pg_catalog.array_send'::regproc
            OR t.oid IN ('pg_catalog.int2vector'::regtype, 'pg_catalog.oidvector'::regtype)
        ) THEN ARRAY[t.typelem]
        WHEN t.typtype = 'c' THEN ARRAY(
            SELECT a.atttypid FROM pg_catalog.pg_attribute AS a
            WHERE a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped
            ORDER BY a.attnum
        )
        WHEN t.typtype = 'r' THEN ARRAY(
            SELECT r.rngsubtype FROM pg_catalog.pg_range AS r WHERE r.rngtypid = t.oid
        )
        WHEN t.typtype = 'm' THEN ARRAY(
            SELECT r.rngtypid FROM pg_catalog.pg_range AS r WHERE {multirange} = t.oid
        )
        ELSE ARRAY[]::oid[]
    END::int8[],
    ARRAY(
        SELECT a.atttypmod FROM pg_catalog.pg_attribute AS a
        WHERE t.typtype = 'c' AND a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped
        ORDER BY a.attnum
    ),
    CASE
        WHEN t.typtype = 'e' THEN ARRAY(
            SELECT l.enumlabel FROM pg_catalog.pg_enum AS l
            WHERE l.enumtypid = t.oid ORDER BY l.enumsortorder
        )
        WHEN t.typtype = 'c' THEN ARRAY(
            SELECT a.attname FROM pg_catalog.pg_attribute AS a
            WHERE a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped
            ORDER BY a.attnum
        )
        ELSE ARRAY[]::name[]
    END::text[]
FROM pg_catalog.pg_type AS t
JOIN pg_catalog.pg_namespace AS n ON n.oid = t.typnamespace
WHERE t.oid = ANY (%(oids)s::oid[])
