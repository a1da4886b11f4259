"""Indexes that a table can do without while it is loaded, and those that it cannot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from penstock.backends.mysql.catalog.described import TableQuery
from penstock.backends.mysql.catalog.written import (
    Written,
    WrittenTable,
    parse,
    read_statements,
    read_written,
)
from penstock.backends.mysql.session import MySqlSession
from penstock.backends.sql.relations import read_relations
from penstock.model.tables import TableRef


def read_indexes(session: MySqlSession, table: TableRef) -> Mapping[str, str]:
    """Those that keep no row out; none where the table is not there."""
    if read_relations(session).get(table, True):
        return {}
    return {name: index.text for name, index in read_written(session, table).indexes.items()}


def read_all_indexes(
    session: MySqlSession, tables: Sequence[TableRef]
) -> Mapping[TableRef, Mapping[str, str]]:
    """The same of many tables; those are left out that are not there, or cannot be read."""
    return {
        table: {name: index.text for name, index in parse(statement).indexes.items()}
        for table, statement in read_statements(session, tables).items()
    }


def deferrable(session: MySqlSession, table: TableRef) -> tuple[Mapping[str, str], Sequence[str]]:
    """See `TargetTables`. Unique keys stay: they keep duplicates out."""
    written = read_written(session, table)
    kept: dict[str, str] = {}
    for columns, what in _needed(session, table, written):
        serving = [key for key in written.keys if serves(key, columns)]
        if serving and all(key.name in written.indexes for key in serving):
            # One of them will do.
            kept.setdefault(serving[0].name, what)
    found = {name: key.text for name, key in written.indexes.items() if name not in kept}
    return found, [f"{name} ({what})" for name, what in kept.items()]


def serves(key: Written, columns: Sequence[str]) -> bool:
    """Whether an index begins with these columns."""
    return key.leading[: len(columns)] == tuple(columns)


def _needed(
    session: MySqlSession, table: TableRef, written: WrittenTable
) -> Iterator[tuple[tuple[str, ...], str]]:
    """Columns with which the server wants an index to begin, and what for."""
    if written.automatic is not None:
        yield (written.automatic,), f"{written.automatic} is AUTO_INCREMENT"
    for constraint in written.constraints:
        if constraint.kind == "FOREIGN KEY":
            yield constraint.referring, f"foreign key {constraint.name}"
    for (of, name), columns in referring(session, table).items():
        yield tuple(columns), f"foreign key {name} of {of}"


_REFERRING = TableQuery(
    "table_schema, table_name, constraint_name, referenced_column_name",
    "key_column_usage",
    ordered="table_schema, table_name, constraint_name, ordinal_position",
    schema="referenced_table_schema",
    name="referenced_table_name",
)


def referring(
    session: MySqlSession, table: TableRef
) -> Mapping[tuple[TableRef, str], Sequence[str]]:
    """Foreign keys that point to a table: whose each is, its name, and the columns it points to."""
    found: dict[tuple[TableRef, str], list[str]] = {}
    for schema, of, name, column in session.information(_REFERRING, table):
        found.setdefault((TableRef(schema, of), name), []).append(column)
    return found
