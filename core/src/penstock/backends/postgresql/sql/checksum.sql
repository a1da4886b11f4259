SELECT pg_catalog.count(*), coalesce(pg_catalog.sum({digest}), 0)::pg_catalog.text
FROM {rows}
WHERE {condition}
