-- The unique indexes of tables, by the position of each table, the primary key first. "obstacle" is
-- the reason why an index cannot find rows; "columns" are its key columns in order, each with the
-- operator by which the index compares two values for equality, and "exact" if values that are equal
-- are also the same: 1.0 and 1.00 are not.
SELECT
    asked.place,
    i.relname,
    x.indisprimary,
    pg_catalog.concat_ws(
        ', ',
        CASE WHEN NOT x.indisvalid THEN 'not valid' END,
        CASE WHEN NOT x.indimmediate THEN 'deferrable' END,
        CASE WHEN x.indpred IS NOT NULL THEN 'partial' END,
        CASE WHEN x.indexprs IS NOT NULL THEN 'with an expression' END
    ),
    {nulls_equal},
    (
        SELECT pg_catalog.json_agg(
            pg_catalog.json_build_object(
                'name', a.attname,
                'nullable', NOT (a.attnotnull OR t.typnotnull),
                'equals', eq.operator,
                'collate', CASE
                    WHEN co.oid IS NOT NULL
                        THEN pg_catalog.format('COLLATE %%I.%%I', con.nspname, co.collname)
                    ELSE ''
                END,
                'class', pg_catalog.format('%%I.%%I', ocn.nspname, oc.opcname),
                'exact', ocn.nspname = 'pg_catalog' AND oc.opcintype IN (
                    'bool'::regtype, '"char"'::regtype, 'name'::regtype, 'bytea'::regtype,
                    'int2'::regtype, 'int4'::regtype, 'int8'::regtype, 'oid'::regtype,
                    'uuid'::regtype, 'date'::regtype, 'time'::regtype, 'timetz'::regtype,
                    'timestamp'::regtype, 'timestamptz'::regtype, 'anyenum'::regtype,
                    'text'::regtype
                ) AND coalesce(used.collisdeterministic, true)
            )
            ORDER BY k.position
        )
        FROM unnest(x.indkey) WITH ORDINALITY AS k (attnum, position)
        JOIN pg_catalog.pg_opclass AS oc ON oc.oid = x.indclass[k.position - 1]
        JOIN pg_catalog.pg_namespace AS ocn ON ocn.oid = oc.opcnamespace
        LEFT JOIN pg_catalog.pg_attribute AS a ON a.attrelid = x.indrelid AND a.attnum = k.attnum
        LEFT JOIN pg_catalog.pg_type AS t ON t.oid = a.atttypid
        LEFT JOIN pg_catalog.pg_collation AS used ON used.oid = x.indcollation[k.position - 1]
        LEFT JOIN pg_catalog.pg_collation AS co
            ON co.oid = x.indcollation[k.position - 1] AND co.oid <> a.attcollation
        LEFT JOIN pg_catalog.pg_namespace AS con ON con.oid = co.collnamespace
        CROSS JOIN LATERAL (
            SELECT pg_catalog.format('OPERATOR(%%I.%%s)', opn.nspname, o.oprname) AS operator
            FROM pg_catalog.pg_amop AS m
            JOIN pg_catalog.pg_operator AS o ON o.oid = m.amopopr
            JOIN pg_catalog.pg_namespace AS opn ON opn.oid = o.oprnamespace
            WHERE m.amopfamily = oc.opcfamily AND m.amopstrategy = 3 AND m.amoppurpose = 's'
                AND m.amoplefttype = oc.opcintype AND m.amoprighttype = oc.opcintype
        ) AS eq
        WHERE k.position <= x.indnkeyatts
    )
FROM pg_catalog.unnest(%(tables)s::text[]) WITH ORDINALITY AS asked (name, place)
JOIN pg_catalog.pg_index AS x ON x.indrelid = asked.name::regclass AND x.indisunique
JOIN pg_catalog.pg_class AS i ON i.oid = x.indexrelid
JOIN pg_catalog.pg_am AS am ON am.oid = i.relam
WHERE am.amname = 'btree'
ORDER BY asked.place, NOT x.indisprimary, i.relname
