INSERT INTO {gone} ({key})
SELECT {key} FROM {rows}
WHERE {digest} OPERATOR(pg_catalog.=) ANY ({digests}::pg_catalog.int8[])
