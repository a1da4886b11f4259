-- Rows, and how many of them were written by a transaction that is not older than the given one:
-- transaction ids are compared on a circle. 1 and 2 are older than all others.
SELECT
    pg_catalog.count(*),
    pg_catalog.count(*) FILTER (
        WHERE xmin OPERATOR(pg_catalog.>) 2 AND pg_catalog.mod(
            xmin OPERATOR(pg_catalog.-) {since} OPERATOR(pg_catalog.+) 4294967296, 4294967296
        ) OPERATOR(pg_catalog.<) 2147483648
    )
FROM ({rows}) AS rows
