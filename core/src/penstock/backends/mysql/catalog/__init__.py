"""What the catalog says about tables, keys and values."""
