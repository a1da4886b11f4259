-- Links from other tables to these: foreign keys, inheritance, and defaults that use a sequence
-- owned by one of these. Each comes with the objects that depend on these tables. "place" is the
-- position of the table in question, of which these are the parts.
WITH mine (place, oid) AS MATERIALIZED (
    SELECT * FROM ROWS FROM (
        pg_catalog.unnest({places}::bigint[]), pg_catalog.unnest({tables}::oid[])
    ) AS u
)
SELECT
    mine.place,
    'foreign key' AS kind,
    n.nspname AS schema,
    c.relname AS name,
    rn.nspname AS root_schema,
    r.relname AS root_name,
    c.oid AS table_oid,
    k.oid AS object,
    k.conname AS label,
    pg_catalog.pg_get_constraintdef(k.oid) AS definition,
    NULL::text AS sequence,
    NULL::text AS of
FROM mine
JOIN pg_catalog.pg_constraint AS k ON k.confrelid = mine.oid
JOIN pg_catalog.pg_class AS c ON c.oid = k.conrelid
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_class AS r ON r.oid = coalesce(pg_catalog.pg_partition_root(c.oid), c.oid)
JOIN pg_catalog.pg_namespace AS rn ON rn.oid = r.relnamespace
WHERE k.contype = 'f' AND k.conparentid = 0
    AND NOT EXISTS (SELECT FROM mine AS own WHERE own.place = mine.place AND own.oid = k.conrelid)
UNION ALL
SELECT
    mine.place,
    'inheritance', n.nspname, c.relname, n.nspname, c.relname, c.oid, c.oid, c.relname, NULL, NULL,
    pg_catalog.format('%I.%I', pn.nspname, p.relname)
FROM mine
JOIN pg_catalog.pg_inherits AS i ON i.inhparent = mine.oid
JOIN pg_catalog.pg_class AS c ON c.oid = i.inhrelid
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_class AS p ON p.oid = i.inhparent
JOIN pg_catalog.pg_namespace AS pn ON pn.oid = p.relnamespace
WHERE NOT c.relispartition
    AND NOT EXISTS (SELECT FROM mine AS own WHERE own.place = mine.place AND own.oid = c.oid)
UNION ALL
SELECT
    mine.place,
    'sequence', n.nspname, c.relname, n.nspname, c.relname, c.oid, f.oid, s.relname, NULL,
    pg_catalog.format('%I.%I', sn.nspname, s.relname), NULL
FROM mine
JOIN pg_catalog.pg_depend AS o ON o.refobjid = mine.oid
JOIN pg_catalog.pg_class AS s ON s.oid = o.objid AND s.relkind = 'S'
JOIN pg_catalog.pg_namespace AS sn ON sn.oid = s.relnamespace
JOIN pg_catalog.pg_depend AS d
    ON d.refclassid = 'pg_catalog.pg_class'::regclass AND d.refobjid = s.oid
    AND d.classid = 'pg_catalog.pg_attrdef'::regclass AND d.deptype = 'n'
JOIN pg_catalog.pg_attrdef AS f ON f.oid = d.objid
JOIN pg_catalog.pg_class AS c ON c.oid = f.adrelid
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
WHERE o.classid = 'pg_catalog.pg_class'::regclass
    AND o.refclassid = 'pg_catalog.pg_class'::regclass
    AND o.deptype = 'a'
    AND NOT EXISTS (SELECT FROM mine AS own WHERE own.place = mine.place AND own.oid = f.adrelid)
ORDER BY 1, 2, 3, 4, 9
