-- Checksums by the transaction that wrote each row; all other transactions are combined.
SELECT loader::text, count(*), coalesce(sum(digest), 0)::text
FROM (
    SELECT
        CASE WHEN xmin = ANY ({transactions}::xid[]) THEN xmin END AS loader,
        CASE WHEN {digest_others} OR xmin = ANY ({transactions}::xid[]) THEN {digest} END AS digest
    FROM {table}
    WHERE {condition}
) AS told
GROUP BY loader
