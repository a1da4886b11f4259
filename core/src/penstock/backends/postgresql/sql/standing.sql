-- The reason why a commit record was not inserted: the run's generation, the mark that a crash
-- removes, or another run of the series that has committed the partition.
SELECT
    r.generation,
    EXISTS (SELECT FROM {schema}.volatile_run AS v WHERE v.run_id = r.run_id),
    c.run_id,
    c.committed_at::text
FROM {schema}.run AS r
LEFT JOIN {schema}.commit_record AS c
    ON c.series = nullif(%(series)s::text, '')
        AND c.partition_id = %(partition_id)s
        AND c.run_id <> r.run_id
WHERE r.run_id = %(run_id)s
