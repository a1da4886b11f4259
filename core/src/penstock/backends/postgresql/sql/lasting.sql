-- The kind of the relation that has a name now (NULL if none has it), and whether policies hide some
-- of its rows from this user.
SELECT run.id, c.relkind::text, pg_catalog.row_security_active(c.oid)
FROM ROWS FROM (
    pg_catalog.unnest(%(runs)s::text[]),
    pg_catalog.unnest(%(tables)s::text[])
) AS run (id, name)
LEFT JOIN pg_catalog.pg_class AS c ON c.oid = pg_catalog.to_regclass(run.name)
