"""The server's catalog: tables, keys and values."""
