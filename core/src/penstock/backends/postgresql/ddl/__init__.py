"""Definitions of tables, read from the catalog and written as statements."""
