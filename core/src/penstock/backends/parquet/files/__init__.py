"""Files as rows: listed, read, compared."""
