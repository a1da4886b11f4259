"""What DuckDB knows of tables, keys and values."""
