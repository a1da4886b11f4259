"""DuckDB as source and target."""

from __future__ import annotations

from penstock.backends.api.installation import check_installed
from penstock.backends.duckdb.capabilities import SOURCE, TARGET
from penstock.backends.duckdb.location import URLS
from penstock.backends.sql.one_file.backend import FileBackend

check_installed("duckdb", "pyarrow")

backend = FileBackend(
    __name__,
    URLS,
    SOURCE,
    TARGET,
    kinds=("duckdb",),
    rewrites="changes to its rows, or another table with its name",
)
"""The backend object that the entry point refers to."""
