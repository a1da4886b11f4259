"""The server's catalog: names, tables, keys, and the texts of values."""
