-- Sorted by bytes, as every other server sorts them.
SELECT key, digest
FROM (SELECT {key} AS key, {digest}::text AS digest FROM {rows} WHERE {condition}) AS rows
WHERE {chosen}
ORDER BY key COLLATE "C", digest COLLATE "C"
