-- What pg_catalog knows about a column that is to be a key.
SELECT
    a.attnotnull,
    EXISTS (
        SELECT
        FROM pg_catalog.pg_index AS x
        JOIN pg_catalog.pg_class AS i ON i.oid = x.indexrelid
        JOIN pg_catalog.pg_am AS am ON am.oid = i.relam
        WHERE x.indrelid = a.attrelid AND x.indkey[0] = a.attnum
            AND x.indisvalid AND x.indpred IS NULL AND am.amname = 'btree'
    ),
    coalesce(co.collname, '')
FROM pg_catalog.pg_attribute AS a
LEFT JOIN pg_catalog.pg_collation AS co ON co.oid = a.attcollation
WHERE a.attrelid = %(table)s::regclass AND a.attname = %(column)s AND NOT a.attisdropped
