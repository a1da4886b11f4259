DELETE FROM {table} WHERE {condition}
