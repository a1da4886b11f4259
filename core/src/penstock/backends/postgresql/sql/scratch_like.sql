-- Facts for creating a table like this one: its kind, storage, whether it may be read, and whether
-- it has triggers and foreign keys.
SELECT
    c.relkind::text,
    c.relpersistence::text,
    pg_catalog.array_to_string(c.reloptions, ', '),
    (SELECT t.spcname FROM pg_catalog.pg_tablespace AS t WHERE t.oid = c.reltablespace),
    pg_catalog.has_table_privilege(c.oid, 'SELECT'),
    EXISTS (
        SELECT FROM pg_catalog.pg_trigger AS t
        WHERE t.tgrelid = c.oid AND NOT t.tgisinternal AND t.tgenabled IN ('O', 'A')
    ),
    EXISTS (
        SELECT FROM pg_catalog.pg_constraint AS k WHERE k.conrelid = c.oid AND k.contype = 'f'
    )
FROM pg_catalog.pg_class AS c
WHERE c.oid = pg_catalog.to_regclass(%(table)s)
