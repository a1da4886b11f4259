"""Results, read to their end: a session does nothing else before."""

from __future__ import annotations

from typing import Any

from duckdb import DuckDBPyConnection


def first(executed: DuckDBPyConnection) -> tuple[Any, ...] | None:
    """The first row of what a session has just executed; None for no row."""
    rows = executed.fetchall()
    return rows[0] if rows else None
