"""A table's model, from what the catalog lists."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.backends.snowflake.catalog.names import shown, swapped
from penstock.backends.snowflake.catalog.tables import listed
from penstock.backends.snowflake.session import SnowflakeSession
from penstock.backends.sql.catalog.catalog_facts import TableQuery
from penstock.backends.sql.catalog.unique_keys import DeclaredKey
from penstock.backends.sql.definitions.expressions import read
from penstock.model.table_model import (
    ColumnModel,
    Expression,
    ForeignKeyModel,
    Identity,
    KeyModel,
    TableModel,
)
from penstock.model.tables import Column, TableRef

_COLUMNS = TableQuery(
    f"{shown('column_name')}, column_default, comment, is_identity, identity_start,"
    " identity_increment",
    "information_schema.columns",
    "table_schema",
    "table_name",
    "table_catalog = {catalog}",
)
_COMMENT = TableQuery(
    "comment",
    "information_schema.tables",
    "table_schema",
    "table_name",
    "table_catalog = {catalog}",
)
# Columns of SHOW's list of foreign keys.
_OTHER_SCHEMA, _OTHER, _OTHERS, _SCHEMA, _TABLE, _COLUMN = 2, 3, 4, 6, 7, 8
_PLACE, _ON_UPDATE, _ON_DELETE, _NAME = 9, 10, 11, 12


def model_of(
    session: SnowflakeSession,
    table: TableRef,
    columns: Sequence[Column],
    keys: Sequence[DeclaredKey],
) -> TableModel:
    """Return the model of a table.

    Args:
        session: a session with the server.
        table: the table.
        columns: the table's columns.
        keys: the table's declared keys.
    """
    facts_by_name = {name: facts for name, *facts in session.about(_COLUMNS, table)}
    comments = [comment for (comment,) in session.about(_COMMENT, table)]
    return TableModel(
        tuple(_column(each, *facts_by_name.get(each.name, (None,) * 5)) for each in columns),
        tuple(KeyModel("", key.names, key.primary) for key in keys),
        foreign_keys=foreign_keys(session, table),
        comment=next(iter(comments), "") or "",
    )


def _column(
    column: Column,
    default: str | None,
    comment: str | None,
    is_identity: str | None,
    first: str | None,
    step: str | None,
) -> ColumnModel:
    identity = Identity(int(first or 1), int(step or 1)) if is_identity == "YES" else None
    return ColumnModel(
        column.name,
        native=column.type,
        nullable=column.nullable,
        default=Expression(default, read(default)) if default and identity is None else None,
        identity=identity,
        comment=comment or "",
    )


def foreign_keys(session: SnowflakeSession, table: TableRef) -> tuple[ForeignKeyModel, ...]:
    """Return the declared foreign keys, which Snowflake does not enforce."""
    return listed(session, "foreign keys", table, _foreign_keys)


def _foreign_keys(
    session: SnowflakeSession, place: str, subject: str
) -> dict[TableRef, tuple[ForeignKeyModel, ...]]:
    rows = session.fetch(f"SHOW IMPORTED KEYS IN {place}", subject)
    keys: dict[tuple[TableRef, str], ForeignKeyModel] = {}
    # An emulator also lists primary keys, which reference no table.
    for row in sorted((row for row in rows if row[_OTHER]), key=lambda row: int(row[_PLACE])):
        of = TableRef(swapped(row[_SCHEMA]), swapped(row[_TABLE])), row[_NAME]
        before = keys.get(of)
        keys[of] = ForeignKeyModel(
            swapped(row[_NAME]),
            (*(before.columns if before else ()), swapped(row[_COLUMN])),
            TableRef(swapped(row[_OTHER_SCHEMA]), swapped(row[_OTHER])),
            (*(before.referenced if before else ()), swapped(row[_OTHERS])),
            _action(row[_ON_DELETE]),
            _action(row[_ON_UPDATE]),
            checked=False,
        )
    by_table: dict[TableRef, tuple[ForeignKeyModel, ...]] = {}
    for (table, _), key in keys.items():
        by_table[table] = (*by_table.get(table, ()), key)
    return by_table


def _action(rule: str) -> str:
    return "" if rule == "NO ACTION" else rule
