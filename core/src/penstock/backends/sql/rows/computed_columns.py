"""Rows with columns that the source computes, which are then read by name."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.backends.sql.dialect import Dialect, raw
from penstock.model.tables import ColumnPair

ALL = "1 = 1"


def computed_rows(
    dialect: Dialect, rows: str, selection: str, pairs: Sequence[ColumnPair]
) -> tuple[str, str]:
    """Return an item of FROM with the columns of all pairs by name, and a condition on it.

    Args:
        dialect: the dialect of the statement.
        rows: an item of FROM.
        selection: a condition on its own columns.
        pairs: the copied columns.
    """
    if not any(pair.expression for pair in pairs):
        return rows, selection
    values, names = [], []
    for place, pair in enumerate(pairs):
        name = dialect.ident(pair.source)
        # In an expression or condition, some databases resolve a name to the column computed under
        # it instead of the original.
        column_name = dialect.ident(f"penstock_{place}")
        values.append(f"{raw(pair.expression) if pair.expression else name} AS {column_name}")
        names.append(f"{column_name} AS {name}")
    read = f"(SELECT {', '.join(values)} FROM {rows} WHERE {selection}) AS computed"
    return f"(SELECT {', '.join(names)} FROM {read}) AS named", ALL
