-- What was written to a table and the tables below it: the files of their rows, and the counters of
-- the server, with the times when they were last reset. A crash loses them, which resets those of
-- the background writer. A standby counts none, nor does a server of rows on another one.
WITH RECURSIVE tree AS (
    SELECT %(oid)s::oid AS oid
    UNION
    SELECT i.inhrelid
    FROM tree JOIN pg_catalog.pg_inherits AS i ON i.inhparent = tree.oid AND {inherited} AND %(all)s
), leaves AS (
    SELECT c.oid, c.relkind, c.relpersistence
    FROM tree JOIN pg_catalog.pg_class AS c ON c.oid = tree.oid WHERE c.relkind <> 'p'
)
SELECT
    pg_catalog.pg_is_in_recovery(),
    (
        SELECT pg_catalog.string_agg(DISTINCT relkind::text, '') FROM leaves
        WHERE relkind NOT IN ('r', 'm', 't')
    ),
    (
        SELECT pg_catalog.md5(pg_catalog.string_agg(
            pg_catalog.concat_ws(' ', oid, pg_catalog.pg_relation_filenode(oid)), ',' ORDER BY oid
        )) FROM leaves
    ),
    (
        SELECT pg_catalog.format(
            '%%s inserted, %%s updated, %%s deleted',
            coalesce(sum(pg_catalog.pg_stat_get_tuples_inserted(oid)), 0),
            coalesce(sum(pg_catalog.pg_stat_get_tuples_updated(oid)), 0),
            coalesce(sum(pg_catalog.pg_stat_get_tuples_deleted(oid)), 0)
        ) FROM leaves
    ),
    pg_catalog.concat_ws(
        ' ', (SELECT stats_reset FROM pg_catalog.pg_stat_bgwriter),
        pg_catalog.pg_stat_get_db_stat_reset_time(
            (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database())
        )
    )
