-- Whether blocks can be sampled, and how many there are.
WITH RECURSIVE tree AS (
    SELECT %(table)s::regclass::oid AS oid
    UNION
    SELECT i.inhrelid
    FROM tree JOIN pg_catalog.pg_inherits AS i ON i.inhparent = tree.oid AND {inherited}
)
SELECT
    (SELECT r.relkind IN ('r', 'm', 'p') FROM pg_catalog.pg_class AS r
        WHERE r.oid = %(table)s::regclass)
        AND bool_and(c.relkind IN ('r', 'm', 'p')),
    greatest(sum(
        CASE
            WHEN c.relkind IN ('r', 'm')
                THEN pg_catalog.pg_relation_size(c.oid) / current_setting('block_size')::int
        END
    ), 1)::bigint
FROM tree
JOIN pg_catalog.pg_class AS c ON c.oid = tree.oid AND c.relpersistence <> 't'
