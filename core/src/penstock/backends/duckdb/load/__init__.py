"""Partitions written into a DuckDB file, and the steps before and after."""
