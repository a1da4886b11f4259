"""Indexes that a table can do without during a load, and those it needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from penstock.backends.mysql.catalog.statements import read_statements
from penstock.backends.mysql.catalog.table_model import (
    indexes_of,
    keys_of,
    leading,
    model_of,
    read_table,
)
from penstock.backends.mysql.session import MySqlSession
from penstock.backends.sql.catalog.catalog_facts import TableQuery
from penstock.backends.sql.catalog.relations import read_relations
from penstock.model.table_model import IndexModel, KeyModel, TableModel
from penstock.model.tables import TableRef


def read_indexes(session: MySqlSession, table: TableRef) -> Mapping[str, str]:
    """Return the indexes that reject no rows; none if the table does not exist."""
    if read_relations(session).get(table, True):
        return {}
    return indexes_of(model_of(session, table))


def read_all_indexes(
    session: MySqlSession, tables: Sequence[TableRef]
) -> Mapping[TableRef, Mapping[str, str]]:
    """Return the indexes of many tables, without tables that do not exist or cannot be read."""
    return {
        table: indexes_of(read_table(statement, table).model)
        for table, statement in read_statements(session, tables).items()
    }


def deferrable(session: MySqlSession, table: TableRef) -> tuple[Mapping[str, str], Sequence[str]]:
    """Return the deferrable indexes; see `TargetTables`. Unique keys stay, to reject duplicates."""
    model = model_of(session, table)
    indexes, reasons = indexes_of(model), dict[str, str]()
    for columns, what in _needed(session, table, model):
        serving = [key.name for key in keys_of(model) if serves(key, columns)]
        if serving and indexes.keys() >= set(serving):
            # One of them is enough.
            reasons.setdefault(serving[0], what)
    deferred = {name: text for name, text in indexes.items() if name not in reasons}
    return deferred, [f"{name} ({what})" for name, what in reasons.items()]


def serves(key: KeyModel | IndexModel, columns: Sequence[str]) -> bool:
    """Whether an index begins with these columns."""
    return leading(key)[: len(columns)] == tuple(columns)


def _needed(
    session: MySqlSession, table: TableRef, model: TableModel
) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield columns with which the server requires an index to begin, and the reason."""
    for column in model.columns:
        if column.identity is not None:
            yield (column.name,), f"{column.name} is AUTO_INCREMENT"
    for foreign_key in model.foreign_keys:
        yield foreign_key.columns, f"foreign key {foreign_key.name}"
    for (of, name), columns in referring_keys(session, table).items():
        yield tuple(columns), f"foreign key {name} of {of}"


_REFERRING = TableQuery(
    "table_schema, table_name, constraint_name, referenced_column_name",
    "information_schema.key_column_usage",
    "referenced_table_schema",
    "referenced_table_name",
    order="table_schema, table_name, constraint_name, ordinal_position",
)


def referring_keys(
    session: MySqlSession, table: TableRef
) -> Mapping[tuple[TableRef, str], Sequence[str]]:
    """Return the foreign keys that reference a table, by their tables and names.

    The values are the referenced columns.
    """
    foreign_keys: dict[tuple[TableRef, str], list[str]] = {}
    for schema, table_name, name, column in session.about(_REFERRING, table):
        foreign_keys.setdefault((TableRef(schema, table_name), name), []).append(column)
    return foreign_keys
