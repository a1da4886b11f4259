"""Where a URL leads: a database file, or a database in memory for queries over files.

As SQLAlchemy has it: ``duckdb:///relative``, ``duckdb:////absolute``, ``duckdb:///:memory:``.
"""

from __future__ import annotations

import os
from urllib.parse import SplitResult, quote, unquote, urlsplit

from penstock.errors import UsageError
from penstock.model.tables import Place

SCHEME = "duckdb"
MEMORY = ":memory:"
_FORM = "duckdb:///relative/path, duckdb:////absolute/path or duckdb:///:memory:"


def resolve(url: str, flag: str) -> str:
    """The same URL with an absolute path.

    Raises:
        UsageError: it is none of DuckDB's.
    """
    parts = _split(url, flag)
    if parts.netloc or parts.query or parts.fragment:
        what = "a host" if parts.netloc else "parameters"
        raise UsageError(f"{flag}: expected {_FORM}; found {what}")
    path = unquote(parts.path.removeprefix("/"))
    if "\0" in path:
        raise UsageError(f"{flag}: expected {_FORM}; found a NUL in the path")
    if not path:
        raise UsageError(f"{flag}: expected {_FORM}; found no path")
    if path == MEMORY:
        return f"{SCHEME}:///{MEMORY}"
    return f"{SCHEME}:///{quote(os.path.abspath(path))}"


def _split(url: str, flag: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError:  # its words would show a part of the URL
        raise UsageError(f"{flag}: expected {_FORM}; found a host that is none") from None


def path_of(url: str) -> str | None:
    """The file's path, all links in it followed; None for a database in memory."""
    path = unquote(urlsplit(url).path.removeprefix("/"))
    return None if path == MEMORY else os.path.realpath(path)


def place_of(url: str) -> Place:
    path = unquote(_split(url, "connection").path.removeprefix("/"))
    return Place(SCHEME, "", None, path if path == MEMORY else os.path.abspath(path))
