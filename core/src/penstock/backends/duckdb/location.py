"""Where a URL leads: a database file, or a database in memory for queries over files."""

from __future__ import annotations

from penstock.backends.shared.database_file import FileUrls

SCHEME = "duckdb"
_URLS = FileUrls(SCHEME, ":memory:")

resolve = _URLS.resolve
path_of = _URLS.path
place_of = _URLS.place
