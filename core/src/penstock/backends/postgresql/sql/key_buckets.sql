SELECT bucket, pg_catalog.count(*), pg_catalog.sum(digest)::pg_catalog.text
FROM (
    SELECT digest OPERATOR(pg_catalog.&) {mask} AS bucket, digest
    FROM (SELECT {digest} AS digest FROM {rows}) AS keys
) AS placed
GROUP BY bucket
