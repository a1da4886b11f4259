-- Sorted by bytes, as every other server sorts them.
SELECT key, digest
FROM (SELECT {key} AS key, {digest}::pg_catalog.text AS digest FROM {rows} WHERE {condition}) AS rows
WHERE {chosen}
ORDER BY key COLLATE pg_catalog."C", digest COLLATE pg_catalog."C"
