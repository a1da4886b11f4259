"""A database's catalog: tables, columns, keys."""
