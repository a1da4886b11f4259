"""What the catalog says of tables, keys and values."""
