-- Whether COPY can load a relation: its kind, whether rows can be inserted (foreign tables; views by
-- a trigger), whether row security forbids it, and where rows go to other servers.
WITH RECURSIVE tree AS (
    SELECT %(table)s::regclass::oid AS oid
    UNION
    SELECT i.inhrelid
    FROM tree JOIN pg_catalog.pg_inherits AS i ON i.inhparent = tree.oid AND {inherited}
)
SELECT
    c.relkind::text,
    -- 8: inserts, see pg_relation_is_updatable.
    c.relkind <> 'f' OR pg_catalog.pg_relation_is_updatable(c.oid, false) & 8 = 8,
    -- 1 for each row, 4 on insert, 64 instead: see tgtype.
    EXISTS (
        SELECT FROM pg_catalog.pg_trigger AS t
        WHERE t.tgrelid = c.oid AND t.tgtype & 69 = 69 AND t.tgenabled IN ('O', 'A')
    ),
    pg_catalog.row_security_active(c.oid),
    ARRAY(
        SELECT f.oid::regclass::text
        FROM tree JOIN pg_catalog.pg_class AS f ON f.oid = tree.oid
        WHERE f.relkind = 'f' AND (f.oid = c.oid OR f.relispartition)
        ORDER BY 1
    )
FROM pg_catalog.pg_class AS c
WHERE c.oid = %(table)s::regclass
