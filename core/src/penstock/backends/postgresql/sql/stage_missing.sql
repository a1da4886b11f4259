SELECT FROM pg_temp.penstock_stage AS s
WHERE NOT EXISTS (SELECT FROM {table} AS t WHERE {match})
