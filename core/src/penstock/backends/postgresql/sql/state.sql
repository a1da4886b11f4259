-- Facts by which a table can be recognised. n_tup_* count from the last reset of the statistics;
-- a crash resets them, and then a table with rows and no inserts says that nothing is known.
SELECT
    pg_catalog.format('%%s/%%s/%%s', extract(epoch FROM pg_postmaster_start_time()), d.oid, c.oid),
    pg_catalog.format('%%s/%%s/%%s', d.oid, c.oid, pg_catalog.pg_relation_filenode(c.oid)),
    pg_catalog.txid_current_snapshot()::text,
    CASE
        WHEN s.relid IS NULL OR (s.n_tup_ins = 0 AND c.relpages > 0) THEN ''
        ELSE pg_catalog.format(
            '%%s inserted, %%s updated, %%s deleted since %%s',
            s.n_tup_ins, s.n_tup_upd, s.n_tup_del,
            coalesce(pg_catalog.pg_stat_get_db_stat_reset_time(d.oid)::text, 'ever')
        )
    END
FROM pg_catalog.pg_class AS c
CROSS JOIN (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database()) AS d
LEFT JOIN pg_catalog.pg_stat_all_tables AS s ON s.relid = c.oid
WHERE c.oid = %(table)s::regclass
