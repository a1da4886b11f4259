-- Constraints without an index; the others are read with their indexes.
SELECT k.conrelid::bigint, json_agg(json_build_object(
    'name', k.conname,
    'kind', k.contype::text,
    'definition', pg_catalog.pg_get_constraintdef(k.oid),
    'validated', k.convalidated,
    'no_inherit', k.connoinherit,
    'column', (
        SELECT a.attname FROM pg_catalog.pg_attribute AS a
        WHERE a.attrelid = k.conrelid AND a.attnum = k.conkey[1]
    ),
    'columns', (
        SELECT pg_catalog.string_agg(pg_catalog.quote_ident(a.attname), ', ' ORDER BY u.position)
        FROM pg_catalog.unnest(k.conkey) WITH ORDINALITY AS u (number, position)
        JOIN pg_catalog.pg_attribute AS a ON a.attrelid = k.conrelid AND a.attnum = u.number
    ),
    'from', (
        SELECT json_agg(a.attname ORDER BY u.position)
        FROM pg_catalog.unnest(k.conkey) WITH ORDINALITY AS u (number, position)
        JOIN pg_catalog.pg_attribute AS a ON a.attrelid = k.conrelid AND a.attnum = u.number
    ),
    'to', (
        SELECT json_agg(a.attname ORDER BY u.position)
        FROM pg_catalog.unnest(k.confkey) WITH ORDINALITY AS u (number, position)
        JOIN pg_catalog.pg_attribute AS a ON a.attrelid = k.confrelid AND a.attnum = u.number
    ),
    'on_delete', k.confdeltype::text,
    'on_update', k.confupdtype::text,
    'local', k.conislocal,
    'inherited', k.conparentid <> 0,
    'references_itself', k.confrelid = k.conrelid,
    'references', (
        SELECT json_build_array(n.nspname, c.relname)
        FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
        WHERE c.oid = k.confrelid
    ),
    'comment', pg_catalog.obj_description(k.oid, 'pg_constraint')
) ORDER BY k.conname)
FROM pg_catalog.pg_constraint AS k
WHERE k.conrelid = ANY ({tables}::oid[]) AND k.contype IN ('c', 'f', 'n')
GROUP BY k.conrelid
