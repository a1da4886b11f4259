-- What identifies a relation whose rows have no versions, such as a view.
SELECT
    (SELECT system_identifier::text FROM pg_catalog.pg_control_system()),
    current_database()::text,
    pg_catalog.concat_ws(' ', c.oid, CASE
        WHEN c.relkind IN ('v', 'm') THEN pg_catalog.md5(pg_catalog.pg_get_viewdef(c.oid))
    END)
FROM pg_catalog.pg_class AS c WHERE c.oid = %(table)s::regclass
