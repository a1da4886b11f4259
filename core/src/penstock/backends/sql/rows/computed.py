"""Rows with columns that the source computes: whatever reads them reads them by name."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.backends.sql.dialect import Dialect, raw
from penstock.model.tables import ColumnPair

ALL = "1 = 1"


def computed_rows(
    dialect: Dialect, rows: str, chosen: str, pairs: Sequence[ColumnPair]
) -> tuple[str, str]:
    """An item of FROM in which the columns of all pairs have their names, and a condition on it.

    Parameters:
        rows: an item of FROM.
        chosen: a condition on its own columns.
    """
    if not any(pair.expression for pair in pairs):
        return rows, chosen
    values, names = [], []
    for place, pair in enumerate(pairs):
        name = dialect.ident(pair.source)
        # Some databases take a name in an expression, or in a condition, for what is computed
        # under that name beside it, and not for the column.
        own = dialect.ident(f"penstock_{place}")
        values.append(f"{raw(pair.expression) if pair.expression else name} AS {own}")
        names.append(f"{own} AS {name}")
    read = f"(SELECT {', '.join(values)} FROM {rows} WHERE {chosen}) AS computed"
    return f"(SELECT {', '.join(names)} FROM {read}) AS named", ALL
