"""What the catalog says of tables and values."""
