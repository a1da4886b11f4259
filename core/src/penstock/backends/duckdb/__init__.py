"""DuckDB as source and target."""

from __future__ import annotations

from penstock.backends.duckdb.backend import DuckBackend

backend = DuckBackend()
"""The backend object that the entry point names."""
