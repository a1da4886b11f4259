SELECT pg_catalog.count(*) FROM {table} WHERE {condition}
