-- Tables without their columns, constraints and indexes.
SELECT c.oid::bigint, json_build_object(
    'oid', c.oid::bigint,
    'schema', n.nspname,
    'name', c.relname,
    'written', pg_catalog.quote_ident(c.relname),
    'regclass', pg_catalog.format('%L', pg_catalog.format('%I.%I', n.nspname, c.relname)),
    'kind', c.relkind::text,
    'persistence', c.relpersistence::text,
    'owner', pg_catalog.pg_get_userbyid(c.relowner),
    'options', coalesce(c.reloptions, '{{}}'),
    'toast_options', coalesce(toast.reloptions, '{{}}'),
    'method', am.amname,
    'tablespace', s.spcname,
    'comment', pg_catalog.obj_description(c.oid, 'pg_class'),
    'replica_identity', c.relreplident::text,
    'hypertable', {hypertable},
    'typed', CASE WHEN c.reloftype <> 0 THEN pg_catalog.format_type(c.reloftype, NULL) END,
    'schema_comment', pg_catalog.obj_description(n.oid, 'pg_namespace'),
    'row_security', c.relrowsecurity,
    'force_row_security', c.relforcerowsecurity,
    'partition_key', CASE WHEN c.relkind = 'p' THEN pg_catalog.pg_get_partkeydef(c.oid) END,
    'bound', pg_catalog.pg_get_expr(c.relpartbound, c.oid),
    'inherits', (
        SELECT coalesce(json_agg(json_build_array(pn.nspname, p.relname) ORDER BY i.inhseqno), '[]')
        FROM pg_catalog.pg_inherits AS i
        JOIN pg_catalog.pg_class AS p ON p.oid = i.inhparent
        JOIN pg_catalog.pg_namespace AS pn ON pn.oid = p.relnamespace
        WHERE i.inhrelid = c.oid AND NOT c.relispartition
    ),
    'parent', (
        SELECT i.inhparent::bigint FROM pg_catalog.pg_inherits AS i
        WHERE i.inhrelid = c.oid AND c.relispartition
    )
)
FROM pg_catalog.pg_class AS c
JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
LEFT JOIN pg_catalog.pg_class AS toast ON toast.oid = c.reltoastrelid
LEFT JOIN pg_catalog.pg_am AS am ON am.oid = c.relam
LEFT JOIN pg_catalog.pg_tablespace AS s ON s.oid = c.reltablespace
WHERE c.oid = ANY ({tables}::oid[])
