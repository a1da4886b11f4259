"""The unique keys of a table, which identify its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.backends.postgresql.connection import Connection
from penstock.backends.postgresql.session.statements import for_server, name
from penstock.model.tables import TableRef


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """A column of a unique key, and how the index compares its values."""

    name: str
    """Empty for an expression."""
    nullable: bool
    equals: str
    """The operator by which the index compares values for equality."""
    collate: str
    """COLLATE and the index's collation, if it differs from the column's."""
    operator_class: str
    exact: bool
    """Whether equal values are also the same, which does not hold for 1.0 and 1.00."""


@dataclass(frozen=True, slots=True)
class UniqueKey:
    """A unique index, and whether it can identify rows."""

    index: str
    primary: bool
    obstacle: str
    """The reason why the key cannot identify a row; empty if it can."""
    nulls_equal: bool
    columns: tuple[KeyColumn, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def distinct_null_columns(self) -> tuple[str, ...]:
        """Columns whose NULLs the index treats as distinct."""
        if self.nulls_equal:
            return ()
        return tuple(column.name for column in self.columns if column.nullable)

    def __str__(self) -> str:
        shown = ", ".join(name or "expression" for name in self.names)
        return f"{self.index} ({shown})" + (f": {self.obstacle}" if self.obstacle else "")


def read_unique_keys(connection: Connection, table: TableRef) -> tuple[UniqueKey, ...]:
    """Return a table's unique keys, the primary key first."""
    return unique_keys_of(connection, [table])[table]


def unique_keys_of(
    connection: Connection, tables: Sequence[TableRef]
) -> dict[TableRef, tuple[UniqueKey, ...]]:
    """Return the unique keys of each table."""
    keys: dict[TableRef, tuple[UniqueKey, ...]] = dict.fromkeys(tables, ())
    query = for_server(connection, "unique_keys")
    rows = connection.execute(query, {"tables": [name(table) for table in tables]}).fetchall()
    for place, index, primary, obstacle, nulls_equal, columns in rows:
        key_columns = tuple(
            KeyColumn(
                c["name"] or "", c["nullable"], c["equals"], c["collate"], c["class"], c["exact"]
            )
            for c in columns
        )
        keys[tables[place - 1]] += (UniqueKey(index, primary, obstacle, nulls_equal, key_columns),)
    return keys
