INSERT INTO {gone} ({key})
SELECT {key} FROM {rows} WHERE {digest} = ANY ({digests}::bigint[])
