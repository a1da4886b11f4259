"""How a table is created: its definition is read from the catalog, and written as statements."""
