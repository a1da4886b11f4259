"""How a table is made: its definition read from the catalog, and written as statements."""
