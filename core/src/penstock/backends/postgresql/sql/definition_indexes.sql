-- The definition after the table's name: "USING method (columns) ...", as the server writes it.
SELECT x.indrelid::bigint, json_agg(json_build_object(
    'oid', c.oid::bigint,
    'name', c.relname,
    'parent', (
        SELECT i.inhparent::bigint FROM pg_catalog.pg_inherits AS i WHERE i.inhrelid = c.oid
    ),
    'unique', x.indisunique,
    'valid', x.indisvalid,
    'clustered', x.indisclustered,
    'replica_identity', x.indisreplident,
    'tail', pg_catalog.substr(
        pg_catalog.pg_get_indexdef(c.oid),
        pg_catalog.length(
            CASE WHEN x.indisunique THEN 'CREATE UNIQUE INDEX ' ELSE 'CREATE INDEX ' END
            || pg_catalog.quote_ident(c.relname) || ' ON '
            || CASE WHEN c.relkind = 'I' THEN 'ONLY ' ELSE '' END
            || pg_catalog.quote_ident(n.nspname) || '.' || pg_catalog.quote_ident(t.relname)
        ) + 2
    ),
    'tablespace', s.spcname,
    'comment', pg_catalog.obj_description(c.oid, 'pg_class'),
    'statistics', (
        SELECT coalesce(json_agg(json_build_array(a.attnum, a.attstattarget)), '[]')
        FROM pg_catalog.pg_attribute AS a WHERE a.attrelid = c.oid AND a.attstattarget >= 0
    ),
    'constraint', (
        SELECT json_build_object(
            'kind', k.contype::text,
            'definition', pg_catalog.pg_get_constraintdef(k.oid),
            'columns', (
                SELECT json_agg(a.attname ORDER BY u.place)
                FROM unnest(k.conkey) WITH ORDINALITY AS u (number, place)
                JOIN pg_catalog.pg_attribute AS a
                    ON a.attrelid = k.conrelid AND a.attnum = u.number
            ),
            'deferrable', k.condeferrable,
            'deferred', k.condeferred,
            'by_index', k.contype <> 'x' AND NOT x.indisexclusion,
            'comment', pg_catalog.obj_description(k.oid, 'pg_constraint')
        )
        FROM pg_catalog.pg_constraint AS k
        WHERE k.conindid = c.oid AND k.conrelid = x.indrelid AND k.contype IN ('p', 'u', 'x')
    ),
    'needed_by', (
        -- Foreign keys, and views that group by the primary key, depend on it.
        SELECT coalesce(json_agg(DISTINCT CASE d.classid
            WHEN 'pg_catalog.pg_constraint'::regclass THEN (
                SELECT pg_catalog.format('foreign key %I of %s', k.conname, k.conrelid::regclass)
                FROM pg_catalog.pg_constraint AS k WHERE k.oid = d.objid
            )
            WHEN 'pg_catalog.pg_rewrite'::regclass THEN (
                SELECT pg_catalog.pg_describe_object('pg_catalog.pg_class'::regclass, r.ev_class, 0)
                FROM pg_catalog.pg_rewrite AS r WHERE r.oid = d.objid
            )
            ELSE pg_catalog.pg_describe_object(d.classid, d.objid, d.objsubid)
        END), '[]')
        FROM (
            SELECT 'pg_catalog.pg_class'::regclass, c.oid
            UNION ALL
            SELECT 'pg_catalog.pg_constraint'::regclass, k.oid
            FROM pg_catalog.pg_constraint AS k
            WHERE k.conindid = c.oid AND k.conrelid = x.indrelid AND k.contype <> 'f'
        ) AS own (class, id)
        JOIN pg_catalog.pg_depend AS d ON d.refclassid = own.class AND d.refobjid = own.id
        WHERE d.deptype = 'n'
    )
) ORDER BY x.indisprimary DESC, c.relname)
FROM pg_catalog.pg_index AS x
JOIN pg_catalog.pg_class AS c ON c.oid = x.indexrelid
JOIN pg_catalog.pg_class AS t ON t.oid = x.indrelid
JOIN pg_catalog.pg_namespace AS n ON n.oid = t.relnamespace
LEFT JOIN pg_catalog.pg_tablespace AS s ON s.oid = c.reltablespace
WHERE x.indrelid = ANY ({tables}::oid[])
GROUP BY x.indrelid
