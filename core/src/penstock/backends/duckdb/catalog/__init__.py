"""What DuckDB says about tables, keys and values."""
