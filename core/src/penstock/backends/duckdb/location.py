"""The place that a URL refers to: a database file, or memory for queries over files."""

from __future__ import annotations

from penstock.backends.shared.database_file import FileUrls

SCHEME = "duckdb"
URLS = FileUrls(SCHEME, ":memory:")
