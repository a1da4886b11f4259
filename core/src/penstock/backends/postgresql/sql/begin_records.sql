-- As begin_record, for the partitions of a group: it waits for no attempt at one of them.
INSERT INTO {schema}.commit_record (run_id, partition_id, attempt, series, read_at)
SELECT r.run_id, r.partition_id, r.attempt, nullif(r.series, ''), r.read_at
FROM (
    SELECT a.*
    FROM ROWS FROM (
        pg_catalog.unnest(%(runs)s::text[]), pg_catalog.unnest(%(generations)s::int[]),
        pg_catalog.unnest(%(partitions)s::text[]), pg_catalog.unnest(%(attempts)s::int[]),
        pg_catalog.unnest(%(series)s::text[]), pg_catalog.unnest(%(read_at)s::text[]),
        pg_catalog.unnest(%(names)s::text[])
    ) AS a (run_id, generation, partition_id, attempt, series, read_at, name)
    JOIN {schema}.run AS r ON r.run_id = a.run_id AND r.generation = a.generation
    WHERE pg_catalog.pg_try_advisory_xact_lock(pg_catalog.hashtextextended(a.name, 0))
    ORDER BY a.run_id
    FOR KEY SHARE OF r
) AS r
ON CONFLICT DO NOTHING
