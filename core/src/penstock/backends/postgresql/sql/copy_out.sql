COPY (SELECT {columns} FROM {table} WHERE {condition}) TO STDOUT (FORMAT binary)
