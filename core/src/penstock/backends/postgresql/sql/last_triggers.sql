-- For each table that holds a table's rows, and for INSERT and UPDATE, the last trigger that may
-- change a row before it is written. Triggers fire in the order of their names. One that is enabled
-- in the default way does not fire for a subscription.
WITH RECURSIVE tree AS (
    SELECT %(table)s::regclass::oid AS oid
    UNION ALL
    SELECT i.inhrelid
    FROM tree JOIN pg_catalog.pg_inherits AS i ON i.inhparent = tree.oid AND %(all)s
)
SELECT
    c.oid::regclass::text,
    c.relkind::text,
    event.name,
    t.tgname IS NOT NULL AND t.tgqual IS NULL AND t.tgattr::text = '' AND l.lanname = 'plpgsql',
    coalesce(t.tgenabled = 'A' OR t.tgenabled = 'O' AND NOT EXISTS (
        SELECT FROM pg_catalog.pg_subscription AS s
        JOIN pg_catalog.pg_database AS d ON d.oid = s.subdbid
        WHERE d.datname = current_database()
    ), false),
    coalesce(p.prosrc, ''),
    a.atttypid = 'pg_catalog.timestamptz'::regtype AND a.atttypmod IN (-1, 6)
FROM tree
JOIN pg_catalog.pg_class AS c ON c.oid = tree.oid AND c.relkind <> 'p'
JOIN pg_catalog.pg_attribute AS a ON a.attrelid = c.oid AND a.attname = %(column)s
CROSS JOIN (VALUES ('INSERT', 4), ('UPDATE', 16)) AS event (name, bit)
LEFT JOIN LATERAL (
    SELECT t.* FROM pg_catalog.pg_trigger AS t
    WHERE t.tgrelid = c.oid AND t.tgenabled IN ('O', 'A')
        AND t.tgtype & 3 = 3 AND t.tgtype & 64 = 0 AND t.tgtype & event.bit <> 0
    ORDER BY t.tgname DESC
    LIMIT 1
) AS t ON true
LEFT JOIN pg_catalog.pg_proc AS p ON p.oid = t.tgfoid
LEFT JOIN pg_catalog.pg_language AS l ON l.oid = p.prolang
