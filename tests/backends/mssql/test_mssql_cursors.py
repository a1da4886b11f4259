"""The SQL text of nights by a column, which reads the rows from a value on."""

from __future__ import annotations

from typing import Any

from penstock.backends.api.optional.cursors import CursorState
from penstock.backends.mssql.dialect import MSSQL
from penstock.backends.sql.rows.cursors import CursorSql
from penstock.model.extents import Bound
from penstock.model.nights import Cursor


def test_statements() -> None:
    queries: list[str] = []

    def fetch(query: str, subject: str) -> list[tuple[Any, ...]]:
        queries.append(query)
        return [("2026-03-01 12:00:00.0000001", "0")]

    reader = CursorSql(
        MSSQL,
        "[dbo].[items]",
        fetch,
        as_text=MSSQL.bound_text,
        clock="SELECT 1",
        first=lambda query: MSSQL.limited_query(query, 1),
    )
    since = Cursor(("changed", "made"), "timestamp", "2026-03-01 12:00:00.0000001", "")
    now = CursorState(since.columns, since.type, since.text, 0, "", "", indexed=True)
    found = reader.range(since, now, "10m", nulls=True)
    value = MSSQL.bound(Bound("timestamp", since.text))
    (query,) = queries
    assert f"DATEADD(second, -600, {value})" in query
    assert f"CASE WHEN {value} < {value} THEN 1 ELSE 0 END" in query
    assert found.condition == (
        f'("changed" >= {value} OR ("changed" IS NULL AND "made" >= {value})'
        ' OR ("changed" IS NULL AND "made" IS NULL))'
    )
    assert "2026-03-01 12:00:00.0000001" in value
    assert MSSQL.earlier("x", "date", 90_000) == "DATEADD(day, -2, x)"
