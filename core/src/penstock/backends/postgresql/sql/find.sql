SELECT n.nspname
FROM pg_catalog.pg_class AS c
JOIN pg_catalog.pg_namespace AS n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
WHERE c.oid OPERATOR(pg_catalog.=)
    pg_catalog.to_regclass(pg_catalog.quote_ident(%(name)s::pg_catalog.text))::pg_catalog.oid
