-- Which of the tables reference which others, by their positions in the list, from 0.
WITH asked AS (
    SELECT pg_catalog.to_regclass(name)::oid AS oid, place - 1 AS place
    FROM unnest(%(tables)s::text[]) WITH ORDINALITY AS u (name, place)
)
SELECT DISTINCT child.place::int, parent.place::int
FROM pg_catalog.pg_constraint AS c
JOIN asked AS child ON child.oid = c.conrelid
JOIN asked AS parent ON parent.oid = c.confrelid
WHERE c.contype = 'f' AND child.oid <> parent.oid
