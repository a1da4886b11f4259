-- Checksums by the transaction that wrote each row; all other transactions are combined.
SELECT
    loader::pg_catalog.text,
    pg_catalog.count(*),
    coalesce(pg_catalog.sum(digest), 0)::pg_catalog.text
FROM (
    SELECT
        CASE WHEN {is_listed} THEN xmin END AS loader,
        CASE WHEN {digest_others} OR {is_listed} THEN {digest} END AS digest
    FROM {table}
    WHERE {condition}
) AS told
GROUP BY loader
