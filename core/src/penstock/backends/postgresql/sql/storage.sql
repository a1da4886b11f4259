-- Changes when the table, or one that it consists of, is made or written anew.
WITH RECURSIVE tree AS (
    SELECT pg_catalog.to_regclass(%(table)s)::oid AS oid
    UNION
    SELECT i.inhrelid FROM tree JOIN pg_catalog.pg_inherits AS i ON i.inhparent = tree.oid
)
SELECT pg_catalog.md5(
    pg_catalog.string_agg(
        pg_catalog.concat_ws(' ', oid, pg_catalog.pg_relation_filenode(oid)), ',' ORDER BY oid
    )
)
FROM tree
WHERE oid IS NOT NULL
