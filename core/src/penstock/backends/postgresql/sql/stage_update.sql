UPDATE {table} AS t SET {assignments}
FROM {stage} AS s
WHERE {match} AND {differ}
