-- The runs whose tables differ from those they were prepared for, or were loaded by another run
-- since. Each of them is then examined with the statements "changed" and "loaded_since".
SELECT r.run_id
FROM {schema}.run AS r
WHERE r.run_id = ANY (%(runs)s)
    AND r.target_state IS NOT NULL
    AND (
        pg_catalog.to_regclass(r.target_state ->> 'table')::oid
            IS DISTINCT FROM (r.target_state ->> 'oid')::oid
        OR EXISTS (
            SELECT FROM pg_catalog.jsonb_each_text(r.target_state -> 'files') AS f
            LEFT JOIN pg_catalog.pg_class AS part ON part.oid = f.key::oid
            WHERE part.relfilenode IS DISTINCT FROM f.value::oid
                OR f.key <> r.target_state ->> 'oid'
        )
        OR r.spec ->> 'mode' = ANY (%(in_place)s::text[] || %(replacing)s::text[]) AND EXISTS (
            SELECT FROM {schema}.run AS other
            JOIN {schema}.commit_record AS c
                ON c.run_id = other.run_id AND c.rows > 0 AND c.committed_at > r.prepared_at
            WHERE other.run_id <> r.run_id
                AND other.spec ->> 'target_table' = r.spec ->> 'target_table'
                AND (
                    r.spec ->> 'mode' = ANY (%(replacing)s)
                    OR other.spec ->> 'mode' = ANY (%(modes)s)
                )
        )
    )
