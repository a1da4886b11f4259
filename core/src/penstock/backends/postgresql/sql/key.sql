-- Facts about a column that is to be a key. NOT NULL counts only if it is enforced for every row:
-- not for foreign tables, not for a table with child tables that may allow NULL, and not before it
-- is valid.
SELECT
    NOT (
        a.attnotnull AND c.relkind = 'r'
        AND NOT EXISTS (SELECT FROM pg_catalog.pg_inherits AS h WHERE h.inhparent = c.oid)
        AND NOT EXISTS (
            SELECT FROM pg_catalog.pg_constraint AS n
            WHERE n.conrelid = c.oid AND n.contype = 'n' AND NOT n.convalidated
                AND n.conkey = ARRAY[a.attnum]
        )
    ),
    EXISTS (
        SELECT
        FROM pg_catalog.pg_index AS x
        JOIN pg_catalog.pg_class AS i ON i.oid = x.indexrelid
        JOIN pg_catalog.pg_am AS am ON am.oid = i.relam
        WHERE x.indrelid = a.attrelid AND x.indkey[0] = a.attnum
            AND x.indisvalid AND x.indpred IS NULL AND am.amname = 'btree'
    )
FROM pg_catalog.pg_attribute AS a
JOIN pg_catalog.pg_class AS c ON c.oid = a.attrelid
WHERE a.attrelid = %(table)s::regclass AND a.attname = %(column)s AND NOT a.attisdropped
