-- For each table that holds a table's rows, and for INSERT and UPDATE, the last trigger that may
-- change a row before it is written. Triggers fire in the order of their names. One that is enabled
-- in the default way does not fire for a subscription.
--
-- The last columns show a later night what was altered in between: the triggers, their functions and
-- the table's columns by their rows of the catalog, each of which names the transaction that wrote
-- it; and triggers that are gone by counts. Replacing a function waits for no transaction, so one that
-- is still open may have called its earlier version.
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
    coalesce(t.tgenabled = 'A', false),
    coalesce(p.prosrc, ''),
    a.atttypid = 'pg_catalog.timestamptz'::regtype AND a.atttypmod IN (-1, 6),
    c.oid::bigint,
    pg_catalog.concat_ws(
        ' ', event.name, p.oid, p.xmin, columns.facts, triggers.facts
    ),
    CASE WHEN pg_catalog.age(p.xmin) BETWEEN 0 AND pg_catalog.age(oldest.xmin::text::xid)
        THEN horizon.snapshot::text ELSE '' END,
    EXISTS (
        SELECT FROM pg_catalog.pg_proc AS same
        WHERE same.proname IN ('now', 'transaction_timestamp') AND same.pronargs = 0
            AND same.pronamespace <> 'pg_catalog'::regnamespace
    ),
    pg_catalog.current_setting('track_counts')::bool,
    pg_catalog.concat_ws(
        ' ',
        pg_catalog.pg_stat_get_tuples_inserted('pg_catalog.pg_trigger'::regclass),
        pg_catalog.pg_stat_get_tuples_deleted('pg_catalog.pg_trigger'::regclass),
        (SELECT pg_catalog.max(newest.oid) FROM pg_catalog.pg_trigger AS newest)
    )
FROM tree
JOIN pg_catalog.pg_class AS c ON c.oid = tree.oid AND c.relkind <> 'p'
JOIN pg_catalog.pg_attribute AS a ON a.attrelid = c.oid AND a.attname = %(column)s
CROSS JOIN pg_catalog.txid_current_snapshot() AS horizon (snapshot)
-- Ids of 32 bits, as in the rows; those below 3 are no transactions.
CROSS JOIN LATERAL (
    SELECT greatest(pg_catalog.txid_snapshot_xmin(horizon.snapshot) & 4294967295, 3) AS xmin
) AS oldest
CROSS JOIN LATERAL (
    SELECT pg_catalog.string_agg(
        pg_catalog.concat(each.attnum, ':', each.xmin), ' ' ORDER BY each.attnum
    )
    FROM pg_catalog.pg_attribute AS each WHERE each.attrelid = c.oid AND each.attnum > 0
) AS columns (facts)
-- Including those that are disabled now, and may have fired in between.
CROSS JOIN LATERAL (
    SELECT pg_catalog.string_agg(
        pg_catalog.concat(each.oid, ':', each.xmin, each.tgenabled), ' ' ORDER BY each.oid
    )
    FROM pg_catalog.pg_trigger AS each WHERE each.tgrelid = c.oid AND each.tgtype & 3 = 3
) AS triggers (facts)
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
