-- Whether COPY can load relations: their kind, whether rows can be inserted (into foreign tables;
-- into views by a trigger), whether row security prevents it, and which rows go to other servers.
WITH RECURSIVE asked AS MATERIALIZED (
    SELECT u.place, pg_catalog.to_regclass(u.name)::oid AS oid
    FROM pg_catalog.unnest({tables}::text[]) WITH ORDINALITY AS u (name, place)
), tree (place, oid) AS (
    SELECT asked.place, asked.oid FROM asked
    UNION
    SELECT tree.place, i.inhrelid
    FROM tree JOIN pg_catalog.pg_inherits AS i ON i.inhparent = tree.oid AND {inherited}
), elsewhere AS MATERIALIZED (
    SELECT tree.place, f.oid, f.relispartition
    FROM tree JOIN pg_catalog.pg_class AS f ON f.oid = tree.oid AND f.relkind = 'f'
)
SELECT
    asked.place,
    c.relkind::text,
    -- 8 stands for inserts, see pg_relation_is_updatable.
    c.relkind <> 'f' OR pg_catalog.pg_relation_is_updatable(c.oid, false) & 8 = 8,
    -- tgtype: 1 FOR EACH ROW, 4 INSERT, 64 INSTEAD OF.
    EXISTS (
        SELECT FROM pg_catalog.pg_trigger AS t
        WHERE t.tgrelid = c.oid AND t.tgtype & 69 = 69 AND t.tgenabled IN ('O', 'A')
    ),
    pg_catalog.row_security_active(c.oid),
    ARRAY(
        SELECT e.oid::regclass::text
        FROM elsewhere AS e
        WHERE e.place = asked.place AND (e.oid = c.oid OR e.relispartition)
        ORDER BY 1
    )
FROM asked
JOIN pg_catalog.pg_class AS c ON c.oid = asked.oid
