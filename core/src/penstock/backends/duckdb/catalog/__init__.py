"""DuckDB's catalog: tables, keys and values."""
