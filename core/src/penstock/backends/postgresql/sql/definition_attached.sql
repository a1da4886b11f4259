-- Objects that belong to tables without being part of them.
SELECT c.oid::bigint, json_build_object(
    'triggers', (
        SELECT coalesce(json_agg(json_build_object(
            'name', t.tgname,
            'definition', pg_catalog.pg_get_triggerdef(t.oid),
            'enabled', t.tgenabled::text,
            -- A partition has its parent's triggers under the same names.
            'inherited', c.relispartition AND EXISTS (
                SELECT FROM pg_catalog.pg_inherits AS i
                JOIN pg_catalog.pg_trigger AS p ON p.tgrelid = i.inhparent
                WHERE i.inhrelid = c.oid AND p.tgname = t.tgname AND p.tgfoid = t.tgfoid
            ),
            'parent_enabled', (
                SELECT p.tgenabled::text
                FROM pg_catalog.pg_inherits AS i
                JOIN pg_catalog.pg_trigger AS p ON p.tgrelid = i.inhparent
                WHERE c.relispartition AND i.inhrelid = c.oid
                    AND p.tgname = t.tgname AND p.tgfoid = t.tgfoid
            ),
            'comment', pg_catalog.obj_description(t.oid, 'pg_trigger')
        ) ORDER BY t.tgname), '[]')
        FROM pg_catalog.pg_trigger AS t WHERE t.tgrelid = c.oid AND NOT t.tgisinternal
            -- A part of every hypertable of TimescaleDB.
            AND t.tgname <> 'ts_insert_blocker'
    ),
    'rules', (
        SELECT coalesce(json_agg(json_build_object(
            'name', r.rulename,
            'definition', pg_catalog.pg_get_ruledef(r.oid),
            'enabled', r.ev_enabled::text,
            'comment', pg_catalog.obj_description(r.oid, 'pg_rewrite')
        ) ORDER BY r.rulename), '[]')
        FROM pg_catalog.pg_rewrite AS r WHERE r.ev_class = c.oid AND r.rulename <> '_RETURN'
    ),
    'policies', (
        SELECT coalesce(json_agg(json_build_object(
            'name', p.polname,
            'command', p.polcmd::text,
            'permissive', p.polpermissive,
            'roles', (
                SELECT json_agg(CASE WHEN role = 0 THEN 'PUBLIC'
                    ELSE pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(role)) END)
                FROM pg_catalog.unnest(p.polroles) AS u (role)
            ),
            'using', pg_catalog.pg_get_expr(p.polqual, p.polrelid),
            'check', pg_catalog.pg_get_expr(p.polwithcheck, p.polrelid),
            'comment', pg_catalog.obj_description(p.oid, 'pg_policy')
        ) ORDER BY p.polname), '[]')
        FROM pg_catalog.pg_policy AS p WHERE p.polrelid = c.oid
    ),
    'grants', (
        SELECT coalesce(json_agg(json_build_object(
            'column', g.attname,
            'privilege', g.privilege_type,
            'grantee', CASE WHEN g.grantee = 0 THEN 'PUBLIC'
                ELSE pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(g.grantee)) END,
            'own', g.grantee = c.relowner,
            'option', g.is_grantable
        ) ORDER BY g.attnum, g.ordinality), '[]')
        FROM (
            SELECT 0 AS attnum, NULL::name AS attname, acl.*
            FROM pg_catalog.aclexplode(c.relacl) WITH ORDINALITY AS acl
            UNION ALL
            SELECT a.attnum, a.attname, acl.*
            FROM pg_catalog.pg_attribute AS a,
                pg_catalog.aclexplode(a.attacl) WITH ORDINALITY AS acl
            WHERE a.attrelid = c.oid AND NOT a.attisdropped
        ) AS g
    ),
    'default_grants', c.relacl IS NULL,
    'publications', (
        SELECT coalesce(json_agg(json_build_object(
            'name', p.pubname,
            'mine', pg_catalog.pg_has_role(p.pubowner, 'USAGE'),
            'owner', pg_catalog.pg_get_userbyid(p.pubowner),
            'columns', {publication_columns},
            'condition', {publication_condition}
        ) ORDER BY p.pubname), '[]')
        FROM pg_catalog.pg_publication_rel AS m
        JOIN pg_catalog.pg_publication AS p ON p.oid = m.prpubid
        WHERE m.prrelid = c.oid
    )
)
FROM pg_catalog.pg_class AS c
WHERE c.oid = ANY ({tables}::oid[])
