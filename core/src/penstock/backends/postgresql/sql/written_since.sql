-- Rows, and how many of them were written by a transaction that is not older than the given one:
-- transaction ids are compared on a circle. 1 and 2 are older than all others.
SELECT
    count(*),
    count(*) FILTER (
        WHERE xmin > 2 AND pg_catalog.mod(xmin - {since} + 4294967296, 4294967296) < 2147483648
    )
FROM ({rows}) AS rows
