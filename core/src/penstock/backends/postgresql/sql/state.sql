-- Facts by which a table can be recognised. n_tup_* count from the last reset of the statistics;
-- a crash resets them, and then a table with rows and no inserts says that nothing is known. A
-- standby counts none. The last column: whether rows may be on another server.
WITH RECURSIVE tree AS (
    SELECT %(table)s::regclass::oid AS oid
    UNION
    SELECT i.inhrelid
    FROM tree JOIN pg_catalog.pg_inherits AS i ON i.inhparent = tree.oid AND {inherited}
), parts AS (
    SELECT
        c.oid,
        pg_catalog.pg_relation_filenode(c.oid) AS filenode,
        s.relid IS NOT NULL AND (s.n_tup_ins > 0 OR c.relpages <= 0) AS counted,
        s.n_tup_ins, s.n_tup_upd, s.n_tup_del
    FROM tree
    JOIN pg_catalog.pg_class AS c
        ON c.oid = tree.oid AND c.relkind <> 'p' AND c.relpersistence <> 't'
    LEFT JOIN pg_catalog.pg_stat_all_tables AS s ON s.relid = c.oid
), whole AS (
    SELECT
        string_agg(oid::text, ',' ORDER BY oid) AS oids,
        string_agg(coalesce(filenode::text, ''), ',' ORDER BY oid) AS filenodes,
        bool_and(counted) AS counted,
        sum(n_tup_ins) AS inserted, sum(n_tup_upd) AS updated, sum(n_tup_del) AS deleted
    FROM parts
)
SELECT
    pg_catalog.format(
        '%%s/%%s/%%s',
        extract(epoch FROM pg_postmaster_start_time()), d.oid, %(table)s::regclass::oid
    ),
    pg_catalog.format(
        '%%s/%%s/%%s', d.oid, %(table)s::regclass::oid,
        CASE WHEN length(filenodes) > 32 THEN md5(filenodes) ELSE filenodes END
    ),
    CASE
        WHEN pg_is_in_recovery() OR NOT coalesce(counted, false) THEN ''
        ELSE pg_catalog.format(
            '%%s inserted, %%s updated, %%s deleted %%s', inserted, updated, deleted,
            coalesce('since ' || pg_catalog.pg_stat_get_db_stat_reset_time(d.oid)::text, 'in all')
        )
    END,
    CASE WHEN length(oids) > 32 THEN md5(oids) ELSE coalesce(oids, '') END,
    (SELECT c.relkind IN ('v', 'f') OR EXISTS (
        SELECT FROM pg_catalog.pg_class AS f JOIN tree ON tree.oid = f.oid WHERE f.relkind = 'f'
    ) FROM pg_catalog.pg_class AS c WHERE c.oid = %(table)s::regclass)
FROM whole
CROSS JOIN (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database()) AS d
