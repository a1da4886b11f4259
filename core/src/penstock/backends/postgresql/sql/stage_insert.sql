-- A conflict can only be with a row that another session is inserting at this moment.
INSERT INTO {target} AS t ({columns}) OVERRIDING SYSTEM VALUE
SELECT {columns} FROM {stage} AS s
WHERE NOT EXISTS (SELECT FROM {table} AS t WHERE {match})
ON CONFLICT ({key}) DO {action}
