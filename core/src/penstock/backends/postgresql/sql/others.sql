-- Objects that are not tables, in the order in which they can be created: kind, schema, name,
-- statements, and how the object is shown if not by its name. Objects of no schema have an empty one.
WITH RECURSIVE own AS (
    SELECT n.oid, n.nspname, n.nspowner, n.nspacl FROM pg_catalog.pg_namespace AS n
    WHERE n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
), used (type) AS (
    -- The types of tables' columns are created with the tables.
    SELECT a.atttypid
    FROM pg_catalog.pg_attribute AS a
    JOIN pg_catalog.pg_class AS c ON c.oid = a.attrelid
    JOIN own ON own.oid = c.relnamespace
    WHERE c.relkind IN ('r', 'p') AND a.attnum > 0 AND NOT a.attisdropped
    UNION
    SELECT part.type
    FROM used
    JOIN pg_catalog.pg_type AS t ON t.oid = used.type
    CROSS JOIN LATERAL (
        SELECT t.typelem UNION ALL SELECT t.typbasetype
        UNION ALL SELECT r.rngsubtype FROM pg_catalog.pg_range AS r WHERE r.rngtypid = t.oid
        UNION ALL SELECT a.atttypid FROM pg_catalog.pg_attribute AS a
        WHERE a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped
    ) AS part (type)
    WHERE part.type >= 16384
), grants (class, oid, kind, acl, owner) AS (
    SELECT 'pg_proc'::regclass::oid, p.oid, 'ROUTINE', p.proacl, p.proowner
    FROM pg_catalog.pg_proc AS p
    UNION ALL
    SELECT 'pg_class'::regclass, c.oid, CASE c.relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END,
        c.relacl, c.relowner
    FROM pg_catalog.pg_class AS c
    UNION ALL
    SELECT 'pg_type'::regclass, t.oid, 'TYPE', t.typacl, t.typowner FROM pg_catalog.pg_type AS t
    UNION ALL
    SELECT 'pg_foreign_server'::regclass, s.oid, 'FOREIGN SERVER', s.srvacl, s.srvowner
    FROM pg_catalog.pg_foreign_server AS s
), found AS (
    SELECT 0 AS position, 'extensions' AS kind, '' AS schema, e.extname AS name,
        'pg_extension'::regclass::oid AS class, e.oid, '' AS comment_on, NULL::text AS shown,
        pg_catalog.format('CREATE EXTENSION IF NOT EXISTS %I SCHEMA %I;', e.extname, n.nspname)
            AS remedy
    FROM pg_catalog.pg_extension AS e
    JOIN pg_catalog.pg_namespace AS n ON n.oid = e.extnamespace
    UNION ALL
    SELECT 1, 'schemas', own.nspname, '', 'pg_namespace'::regclass, own.oid,
        pg_catalog.format('SCHEMA %I', own.nspname), own.nspname,
        pg_catalog.format('CREATE SCHEMA IF NOT EXISTS %I;', own.nspname)
    FROM own
    WHERE own.nspname <> 'public' AND NOT EXISTS (
        SELECT FROM pg_catalog.pg_class AS c
        WHERE c.relnamespace = own.oid AND c.relkind IN ('r', 'p') AND NOT c.relispartition
    )
    UNION ALL
    SELECT 1, 'comments', own.nspname, '', NULL, NULL, '', 'schema public',
        pg_catalog.format(
            'COMMENT ON SCHEMA public IS %L;', pg_catalog.obj_description(own.oid, 'pg_namespace')
        )
    FROM own
    WHERE own.nspname = 'public'
        AND pg_catalog.obj_description(own.oid, 'pg_namespace') <> 'standard public schema'
    UNION ALL
    SELECT 2, CASE WHEN t.typtype = 'd' THEN 'domains' ELSE 'types' END, own.nspname, t.typname,
        'pg_type'::regclass, t.oid,
        pg_catalog.format(
            '%s %I.%I', CASE t.typtype WHEN 'd' THEN 'DOMAIN' ELSE 'TYPE' END, own.nspname,
            t.typname
        ),
        NULL,
        CASE t.typtype
            WHEN 'e' THEN pg_catalog.format('CREATE TYPE %I.%I AS ENUM (%s);', own.nspname, t.typname, (
                SELECT pg_catalog.string_agg(
                    pg_catalog.quote_literal(e.enumlabel), ', ' ORDER BY e.enumsortorder
                )
                FROM pg_catalog.pg_enum AS e WHERE e.enumtypid = t.oid
            ))
            WHEN 'c' THEN pg_catalog.format('CREATE TYPE %I.%I AS (%s);', own.nspname, t.typname, (
                SELECT pg_catalog.string_agg(
                    pg_catalog.format('%I %s', a.attname,
                        pg_catalog.format_type(a.atttypid, a.atttypmod))
                    || CASE WHEN a.attcollation <> at.typcollation
                        THEN pg_catalog.format(' COLLATE %I.%I', cn.nspname, co.collname)
                        ELSE '' END,
                    ', ' ORDER BY a.attnum
                )
                FROM pg_catalog.pg_attribute AS a
                JOIN pg_catalog.pg_type AS at ON at.oid = a.atttypid
                LEFT JOIN pg_catalog.pg_collation AS co ON co.oid = a.attcollation
                LEFT JOIN pg_catalog.pg_namespace AS cn ON cn.oid = co.collnamespace
                WHERE a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped
            ))
            WHEN 'd' THEN pg_catalog.format(
                'CREATE DOMAIN %I.%I AS %s%s%s%s;', own.nspname, t.typname,
                pg_catalog.format_type(t.typbasetype, t.typtypmod),
                CASE WHEN t.typdefault IS NULL THEN '' ELSE ' DEFAULT ' || t.typdefault END,
                CASE WHEN t.typnotnull THEN ' NOT NULL' ELSE '' END,
                (
                    SELECT pg_catalog.string_agg(pg_catalog.format(
                        ' CONSTRAINT %I %s', k.conname, pg_catalog.pg_get_constraintdef(k.oid)
                    ), '' ORDER BY k.conname)
                    FROM pg_catalog.pg_constraint AS k
                    WHERE k.contypid = t.oid AND k.contype = 'c' AND k.convalidated
                )
            )
            ELSE ''
        END
    FROM pg_catalog.pg_type AS t
    JOIN own ON own.oid = t.typnamespace
    LEFT JOIN pg_catalog.pg_class AS c ON c.oid = t.typrelid
    WHERE (t.typtype IN ('d', 'e', 'r') OR t.typtype = 'b' AND t.typcategory <> 'A' OR c.relkind = 'c')
        AND t.oid NOT IN (SELECT type FROM used)
    UNION ALL
    SELECT 3, 'functions', own.nspname, p.proname, 'pg_proc'::regclass, p.oid,
        pg_catalog.format(
            'ROUTINE %I.%I(%s)', own.nspname, p.proname,
            pg_catalog.pg_get_function_identity_arguments(p.oid)
        ),
        NULL,
        CASE WHEN p.prokind <> 'a' THEN rtrim(pg_catalog.pg_get_functiondef(p.oid), E' \n') || ';'
            || CASE WHEN p.proacl IS NULL THEN '' ELSE pg_catalog.format(
                E'\nREVOKE ALL ON ROUTINE %I.%I(%s) FROM PUBLIC;', own.nspname, p.proname,
                pg_catalog.pg_get_function_identity_arguments(p.oid)
            ) END
        ELSE '' END
    FROM pg_catalog.pg_proc AS p JOIN own ON own.oid = p.pronamespace
    UNION ALL
    SELECT 4, 'sequences', own.nspname, c.relname, 'pg_class'::regclass, c.oid,
        pg_catalog.format('SEQUENCE %I.%I', own.nspname, c.relname), NULL,
        pg_catalog.format(
            'CREATE %sSEQUENCE %I.%I AS %s INCREMENT BY %s MINVALUE %s MAXVALUE %s START WITH %s'
            ' CACHE %s%s;%s',
            CASE c.relpersistence WHEN 'u' THEN 'UNLOGGED ' ELSE '' END,
            own.nspname, c.relname, pg_catalog.format_type(s.seqtypid, NULL), s.seqincrement,
            s.seqmin, s.seqmax, s.seqstart, s.seqcache,
            CASE WHEN s.seqcycle THEN ' CYCLE' ELSE '' END,
            CASE WHEN pg_catalog.has_sequence_privilege(c.oid, 'SELECT, USAGE') THEN
                E'\nSELECT pg_catalog.setval('
                || pg_catalog.quote_literal(pg_catalog.format('%I.%I', own.nspname, c.relname))
                || ', ' || pg_catalog.pg_sequence_last_value(c.oid) || ');'
            END
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
    SELECT 5, CASE c.relkind WHEN 'v' THEN 'views' WHEN 'm' THEN 'materialized views'
            ELSE 'foreign tables' END,
        own.nspname, c.relname, 'pg_class'::regclass, c.oid,
        pg_catalog.format(
            '%s %I.%I',
            CASE c.relkind WHEN 'v' THEN 'VIEW' WHEN 'm' THEN 'MATERIALIZED VIEW'
                ELSE 'FOREIGN TABLE' END,
            own.nspname, c.relname
        ),
        NULL,
        CASE WHEN c.relkind IN ('v', 'm') THEN pg_catalog.concat_ws(
            E'\n',
            pg_catalog.format(
                'CREATE %s %I.%I%s AS%s%s%s',
                CASE c.relkind WHEN 'v' THEN 'VIEW' ELSE 'MATERIALIZED VIEW' END,
                own.nspname, c.relname,
                ' WITH (' || pg_catalog.array_to_string(c.reloptions, ', ') || ')', E'\n',
                CASE WHEN c.relispopulated THEN pg_catalog.pg_get_viewdef(c.oid)
                    ELSE pg_catalog.rtrim(pg_catalog.pg_get_viewdef(c.oid), ';') END,
                CASE WHEN c.relispopulated THEN '' ELSE E'\n WITH NO DATA;' END
            ),
            (
                SELECT pg_catalog.string_agg(
                    pg_catalog.pg_get_indexdef(x.indexrelid) || ';', E'\n' ORDER BY x.indexrelid
                )
                FROM pg_catalog.pg_index AS x WHERE x.indrelid = c.oid
            ),
            (
                SELECT pg_catalog.string_agg(pg_catalog.format(
                    'ALTER VIEW %I.%I ALTER COLUMN %I SET DEFAULT %s;', own.nspname, c.relname,
                    a.attname, pg_catalog.pg_get_expr(d.adbin, d.adrelid)
                ), E'\n' ORDER BY a.attnum)
                FROM pg_catalog.pg_attrdef AS d
                JOIN pg_catalog.pg_attribute AS a ON a.attrelid = d.adrelid AND a.attnum = d.adnum
                WHERE d.adrelid = c.oid
            ),
            (
                SELECT pg_catalog.string_agg(pg_catalog.format(
                    'COMMENT ON COLUMN %I.%I.%I IS %L;', own.nspname, c.relname, a.attname,
                    pg_catalog.col_description(c.oid, a.attnum)
                ), E'\n' ORDER BY a.attnum)
                FROM pg_catalog.pg_attribute AS a
                WHERE a.attrelid = c.oid AND a.attnum > 0
                    AND pg_catalog.col_description(c.oid, a.attnum) IS NOT NULL
            ),
            (
                SELECT pg_catalog.string_agg(
                    pg_catalog.pg_get_ruledef(r.oid), E'\n' ORDER BY r.rulename
                )
                FROM pg_catalog.pg_rewrite AS r
                WHERE r.ev_class = c.oid AND r.rulename <> '_RETURN'
            ),
            (
                SELECT pg_catalog.string_agg(
                    pg_catalog.pg_get_triggerdef(t.oid) || ';', E'\n' ORDER BY t.tgname
                )
                FROM pg_catalog.pg_trigger AS t WHERE t.tgrelid = c.oid AND NOT t.tgisinternal
            )
        ) ELSE '' END
    FROM pg_catalog.pg_class AS c JOIN own ON own.oid = c.relnamespace
    WHERE c.relkind IN ('v', 'm', 'f')
    UNION ALL
    SELECT 6, 'grants', own.nspname, '', NULL, NULL, '',
        pg_catalog.format('%s on schema %I to %s', g.privilege_type, own.nspname, grantee.name),
        pg_catalog.format(
            'GRANT %s ON SCHEMA %I TO %s;', g.privilege_type, own.nspname, grantee.name
        )
    FROM own
    CROSS JOIN LATERAL pg_catalog.aclexplode(own.nspacl) AS g
    CROSS JOIN LATERAL (
        SELECT CASE WHEN g.grantee = 0 THEN 'PUBLIC'
            ELSE pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(g.grantee)) END AS name
    ) AS grantee
    WHERE g.grantee <> own.nspowner AND NOT (own.nspname = 'public' AND g.grantee = 0)
    UNION ALL
    SELECT 6, 'grants', own.nspname, t.typname, NULL, NULL, '',
        pg_catalog.format('USAGE on type %I.%I to %s', own.nspname, t.typname, grantee.name),
        pg_catalog.format('GRANT USAGE ON TYPE %I.%I TO %s;', own.nspname, t.typname, grantee.name)
    FROM pg_catalog.pg_type AS t
    JOIN own ON own.oid = t.typnamespace
    CROSS JOIN LATERAL pg_catalog.aclexplode(t.typacl) AS g
    CROSS JOIN LATERAL (
        SELECT CASE WHEN g.grantee = 0 THEN 'PUBLIC'
            ELSE pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(g.grantee)) END AS name
    ) AS grantee
    WHERE g.grantee NOT IN (t.typowner, 0) AND t.oid IN (SELECT type FROM used)
    UNION ALL
    SELECT 7, 'default privileges', coalesce(own.nspname, ''), '', NULL, NULL, '',
        pg_catalog.format('%s on %s to %s', g.privilege_type, of.what, grantee.name),
        pg_catalog.format(
            'ALTER DEFAULT PRIVILEGES FOR ROLE %I%s GRANT %s ON %s TO %s;',
            pg_catalog.pg_get_userbyid(d.defaclrole),
            ' IN SCHEMA ' || pg_catalog.quote_ident(own.nspname), g.privilege_type, of.what,
            grantee.name
        )
    FROM pg_catalog.pg_default_acl AS d
    LEFT JOIN own ON own.oid = d.defaclnamespace
    CROSS JOIN LATERAL pg_catalog.aclexplode(d.defaclacl) AS g
    CROSS JOIN LATERAL (
        SELECT CASE WHEN g.grantee = 0 THEN 'PUBLIC'
            ELSE pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(g.grantee)) END AS name
    ) AS grantee
    CROSS JOIN LATERAL (
        SELECT CASE d.defaclobjtype WHEN 'r' THEN 'TABLES' WHEN 'S' THEN 'SEQUENCES'
            WHEN 'f' THEN 'FUNCTIONS' WHEN 'T' THEN 'TYPES' WHEN 'n' THEN 'SCHEMAS'
            ELSE 'LARGE OBJECTS' END AS what
    ) AS of
    WHERE g.grantee <> d.defaclrole
    UNION ALL
    SELECT 8, 'publications', '', p.pubname, 'pg_publication'::regclass, p.oid,
        pg_catalog.format('PUBLICATION %I', p.pubname), NULL,
        pg_catalog.format(
            'CREATE PUBLICATION %I%s WITH (publish = %L%s);', p.pubname,
            CASE WHEN p.puballtables THEN ' FOR ALL TABLES' ELSE {published_schemas} END,
            pg_catalog.concat_ws(
                ', ', CASE WHEN p.pubinsert THEN 'insert' END,
                CASE WHEN p.pubupdate THEN 'update' END, CASE WHEN p.pubdelete THEN 'delete' END,
                CASE WHEN p.pubtruncate THEN 'truncate' END
            ),
            {published_via_root}
        )
    FROM pg_catalog.pg_publication AS p
    UNION ALL
    SELECT 9, 'event triggers', '', e.evtname, 'pg_event_trigger'::regclass, e.oid,
        pg_catalog.format('EVENT TRIGGER %I', e.evtname), NULL,
        pg_catalog.format(
            'CREATE EVENT TRIGGER %I ON %s%s EXECUTE FUNCTION %s();%s', e.evtname, e.evtevent,
            (
                SELECT ' WHEN TAG IN ('
                    || pg_catalog.string_agg(pg_catalog.quote_literal(u.tag), ', ') || ')'
                FROM pg_catalog.unnest(e.evttags) AS u (tag)
            ),
            e.evtfoid::pg_catalog.regproc,
            CASE e.evtenabled WHEN 'O' THEN '' ELSE pg_catalog.format(
                E'\nALTER EVENT TRIGGER %I %s;', e.evtname,
                CASE e.evtenabled WHEN 'D' THEN 'DISABLE' WHEN 'R' THEN 'ENABLE REPLICA'
                    ELSE 'ENABLE ALWAYS' END
            ) END
        )
    FROM pg_catalog.pg_event_trigger AS e
    UNION ALL
    -- Objects without a function that writes their statement.
    SELECT 10, o.kind, coalesce(own.nspname, ''), o.name, o.class, o.oid, '',
        CASE WHEN own.nspname IS NULL THEN o.name ELSE i.identity END, ''
    FROM (
        SELECT 'operators' AS kind, 'pg_operator'::regclass::oid AS class, oid, oprname::text AS name,
            oprnamespace AS namespace
        FROM pg_catalog.pg_operator
        UNION ALL
        SELECT 'operator classes', 'pg_opclass'::regclass, oid, opcname, opcnamespace
        FROM pg_catalog.pg_opclass
        UNION ALL
        SELECT 'operator families', 'pg_opfamily'::regclass, f.oid, opfname, opfnamespace
        FROM pg_catalog.pg_opfamily AS f
        WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_opclass AS o WHERE o.opcfamily = f.oid)
        UNION ALL
        SELECT 'collations', 'pg_collation'::regclass, oid, collname, collnamespace
        FROM pg_catalog.pg_collation
        UNION ALL
        SELECT 'conversions', 'pg_conversion'::regclass, oid, conname, connamespace
        FROM pg_catalog.pg_conversion
        UNION ALL
        SELECT 'text search configurations', 'pg_ts_config'::regclass, oid, cfgname, cfgnamespace
        FROM pg_catalog.pg_ts_config
        UNION ALL
        SELECT 'text search dictionaries', 'pg_ts_dict'::regclass, oid, dictname, dictnamespace
        FROM pg_catalog.pg_ts_dict
        UNION ALL
        SELECT 'text search parsers', 'pg_ts_parser'::regclass, oid, prsname, prsnamespace
        FROM pg_catalog.pg_ts_parser
        UNION ALL
        SELECT 'text search templates', 'pg_ts_template'::regclass, oid, tmplname, tmplnamespace
        FROM pg_catalog.pg_ts_template
        UNION ALL
        SELECT 'casts', 'pg_cast'::regclass, oid,
            pg_catalog.format('%s AS %s', castsource::regtype, casttarget::regtype), 0
        FROM pg_catalog.pg_cast
        UNION ALL
        SELECT 'languages', 'pg_language'::regclass, oid, lanname, 0 FROM pg_catalog.pg_language
        UNION ALL
        SELECT 'access methods', 'pg_am'::regclass, oid, amname, 0 FROM pg_catalog.pg_am
        UNION ALL
        SELECT 'transforms', 'pg_transform'::regclass, oid,
            pg_catalog.format('for %s', trftype::regtype), 0
        FROM pg_catalog.pg_transform
        UNION ALL
        SELECT 'foreign data wrappers', 'pg_foreign_data_wrapper'::regclass, oid, fdwname, 0
        FROM pg_catalog.pg_foreign_data_wrapper
        UNION ALL
        SELECT 'foreign servers', 'pg_foreign_server'::regclass, oid, srvname, 0
        FROM pg_catalog.pg_foreign_server
    ) AS o
    LEFT JOIN own ON own.oid = o.namespace
    CROSS JOIN LATERAL pg_catalog.pg_identify_object(o.class, o.oid, 0) AS i
    WHERE o.oid >= 16384 AND (own.oid IS NOT NULL OR o.namespace = 0)
    UNION ALL
    SELECT 11, 'user mappings', '', m.srvname, NULL, NULL, '',
        pg_catalog.format('%s on server %s', m.usename, m.srvname), ''
    FROM pg_catalog.pg_user_mappings AS m
    UNION ALL
    SELECT 12, 'subscriptions', '', s.subname, NULL, NULL, '', NULL, ''
    FROM pg_catalog.pg_subscription AS s
    WHERE s.subdbid = (
        SELECT d.oid FROM pg_catalog.pg_database AS d
        WHERE d.datname = pg_catalog.current_database()
    )
)
SELECT f.kind, f.schema, f.name, CASE WHEN f.remedy = '' THEN '' ELSE pg_catalog.concat_ws(
        E'\n',
        f.remedy,
        'COMMENT ON ' || nullif(f.comment_on, '') || ' IS '
            || pg_catalog.quote_literal(pg_catalog.obj_description(f.oid, c.relname)) || ';',
        (
            SELECT pg_catalog.string_agg(pg_catalog.format(
                'GRANT %s ON %s %s TO %s%s;', g.privilege_type, a.kind,
                pg_catalog.regexp_replace(
                    f.comment_on, '^(MATERIALIZED |FOREIGN )?[A-Z]+ ', ''
                ),
                CASE WHEN g.grantee = 0 THEN 'PUBLIC'
                    ELSE pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(g.grantee)) END,
                CASE WHEN g.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END
            ), E'\n')
            FROM grants AS a
            CROSS JOIN LATERAL pg_catalog.aclexplode(a.acl) AS g
            WHERE a.class = f.class AND a.oid = f.oid AND g.grantee <> a.owner
        )
    ) END, f.shown
FROM found AS f
LEFT JOIN pg_catalog.pg_class AS c ON c.oid = f.class
WHERE NOT EXISTS (
    -- Members of extensions, and what was created with another object, such as a range type's
    -- functions.
    SELECT FROM pg_catalog.pg_depend AS d
    WHERE d.classid = f.class AND d.objid = f.oid AND d.objsubid = 0 AND d.deptype IN ('e', 'i')
) AND (f.kind <> 'extensions' OR f.oid >= 16384)
ORDER BY f.position, f.oid, f.schema, f.name, f.shown
