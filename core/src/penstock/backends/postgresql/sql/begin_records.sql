-- As begin_record, for the partitions of a group.
INSERT INTO {schema}.commit_record (run_id, partition_id, attempt, series, read_at)
SELECT r.run_id, r.partition_id, r.attempt, nullif(r.series, ''), r.read_at
FROM (
    SELECT a.*
    FROM ROWS FROM (
        pg_catalog.unnest(%(runs)s::text[]), pg_catalog.unnest(%(generations)s::int[]),
        pg_catalog.unnest(%(partitions)s::text[]), pg_catalog.unnest(%(attempts)s::int[]),
        pg_catalog.unnest(%(series)s::text[]), pg_catalog.unnest(%(read_at)s::text[])
    ) AS a (run_id, generation, partition_id, attempt, series, read_at)
    JOIN {schema}.run AS r ON r.run_id = a.run_id AND r.generation = a.generation
    ORDER BY a.run_id
    FOR KEY SHARE OF r
) AS r
ON CONFLICT DO NOTHING
