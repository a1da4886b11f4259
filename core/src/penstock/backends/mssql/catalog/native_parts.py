"""Parts of a table that its model cannot hold, for an exact copy; and dependent objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from penstock.backends.mssql.dialect import MSSQL
from penstock.backends.mssql.session import MssqlSession
from penstock.errors import PlanningError
from penstock.model.tables import NotCopied, TableRef

DISABLED = "disabled"
GRANTS, COMMENTS = "grants", "comments"
_ROWSTORE = {1: "CLUSTERED", 2: "NONCLUSTERED"}


@dataclass(frozen=True, slots=True)
class NativeIndex:
    """An index with everything that SQL Server needs to recreate it."""

    name: str
    constraint: str
    """The kind of key it belongs to; otherwise empty."""
    called: bool
    """Whether the user named the constraint."""
    unique: bool
    kind: str
    """CLUSTERED or NONCLUSTERED."""
    keys: tuple[str, ...]
    descending: tuple[str, ...]
    """The descending key columns."""
    included: tuple[str, ...]
    options: str
    """The clauses that follow the columns."""
    obstacle: str
    """The reason why it cannot be created elsewhere."""

    @property
    def columns(self) -> str:
        keys = (MSSQL.ident(key) + " DESC" * (key in self.descending) for key in self.keys)
        listed = f"({', '.join(keys)})"
        if self.included:
            listed += f" INCLUDE ({', '.join(map(MSSQL.ident, self.included))})"
        return listed + self.options


@dataclass(frozen=True, slots=True)
class NativeParts:
    """The parts of a table that its model cannot hold."""

    defaults: Mapping[str, str]
    """The names of defaults that the user named, by column."""
    distrusted: tuple[str, ...]
    """The texts of checks that not all rows meet."""
    indexes: tuple[NativeIndex, ...]
    """All indexes, including those of keys."""


def read_indexes(session: MssqlSession, table: TableRef) -> tuple[NativeIndex, ...]:
    """Return a table's indexes, including those of keys."""
    indexes: dict[str, tuple[Sequence[Any], list[str], list[str], list[str]]] = {}
    for name, *facts, column, descends, included, ordinal in session.catalog_rows("indexes", table):
        _, keys, descending, inclusions = indexes.setdefault(name, (facts, [], [], []))
        if included:
            inclusions.append(column)
        elif ordinal:  # otherwise it is a partitioning column
            keys.append(column)
            descending += [column] * bool(descends)
    return tuple(_index(name, *columns) for name, columns in indexes.items())


def _index(
    name: str,
    facts: Sequence[Any],
    keys: Sequence[str],
    descending: Sequence[str],
    included: Sequence[str],
) -> NativeIndex:
    kind, description, unique, primary, constraint, ignores, disabled, condition, unnamed = facts
    options = f" WHERE {condition}" if condition else ""
    options += " WITH (IGNORE_DUP_KEY = ON)" if ignores else ""
    rowstore = _ROWSTORE.get(kind, "")
    return NativeIndex(
        name,
        "PRIMARY KEY" if primary else "UNIQUE" if constraint else "",
        not unnamed,
        bool(unique),
        rowstore,
        tuple(keys),
        tuple(descending),
        tuple(included),
        options,
        description.lower() if not rowstore else DISABLED if disabled else "",
    )


def attached(session: MssqlSession, table: TableRef) -> tuple[NotCopied, ...]:
    """Return objects that depend on a table, and are not created for another one."""
    rows = session.catalog_rows("attached", table)
    with suppress(PlanningError):  # Babelfish has no such view
        rows += session.catalog_rows("security_policies", table)
    return tuple(NotCopied(kind, name) for kind, name in rows)
