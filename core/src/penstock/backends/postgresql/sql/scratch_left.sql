-- Schemas for measurements that this user may drop, recognized by name and comment.
SELECT n.nspname
FROM pg_catalog.pg_namespace AS n
WHERE n.nspname ~ ('^' || %(prefix)s || '[0-9a-f]{8}$')
    AND pg_catalog.obj_description(n.oid, 'pg_namespace') = %(comment)s
    AND pg_catalog.pg_has_role(n.nspowner, 'USAGE')
ORDER BY 1
