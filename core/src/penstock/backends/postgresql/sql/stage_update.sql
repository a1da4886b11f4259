UPDATE {table} AS t SET {assignments}
FROM pg_temp.penstock_stage AS s
WHERE {match} AND {differ}
