"""Definitions of tables: from a model to statements."""
