-- By the position of each table, a text that changes when the table, or one of the tables it
-- consists of, is recreated or rewritten.
WITH RECURSIVE tree AS (
    SELECT place, pg_catalog.to_regclass(name)::oid AS oid
    FROM pg_catalog.unnest(%(tables)s::text[]) WITH ORDINALITY AS asked (name, place)
    UNION
    SELECT tree.place, i.inhrelid
    FROM tree JOIN pg_catalog.pg_inherits AS i ON i.inhparent = tree.oid
)
SELECT place, pg_catalog.md5(
    pg_catalog.string_agg(
        pg_catalog.concat_ws(' ', oid, pg_catalog.pg_relation_filenode(oid)), ',' ORDER BY oid
    )
)
FROM tree
WHERE oid IS NOT NULL
GROUP BY place
