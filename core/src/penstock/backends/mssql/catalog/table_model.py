"""The model of a table, from what the catalog says about it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from penstock.backends.mssql.catalog.links import read_comments, read_foreign_keys
from penstock.backends.mssql.catalog.native_parts import NativeIndex, NativeParts, read_indexes
from penstock.backends.mssql.catalog.tables import COLLATION, table_columns, unique_keys
from penstock.backends.mssql.session import MssqlSession
from penstock.backends.mssql.types import MAX, TYPES, MsType
from penstock.backends.sql.catalog.relations import TYPE
from penstock.backends.sql.definitions.expressions import Style, read
from penstock.backends.sql.dialect import LOWER, UPPER
from penstock.model import table_model
from penstock.model.table_model import (
    CheckModel,
    ColumnModel,
    ColumnType,
    Expression,
    Generated,
    Identity,
    IndexModel,
    KeyModel,
    TableModel,
)
from penstock.model.tables import Column, TableRef

_STYLE = Style(
    plus_joins=True,
    functions={"lower": LOWER, "upper": UPPER, "coalesce": "coalesce", "isnull": "coalesce"},
)
_MOST_EXACT = 18
"""The maximum digits of two numbers whose product is still exact."""
_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_WHERE = " WHERE "


def model_of(session: MssqlSession, table: TableRef) -> tuple[TableModel, NativeParts]:
    """Return the model of a table, and the parts that the model cannot hold."""
    keys = unique_keys(session, table)
    model, native = read_parts(session, table)
    comments = read_comments(session, table)
    return (
        replace(
            model,
            columns=tuple(
                replace(each, comment=comments.get(each.name, "")) for each in model.columns
            ),
            keys=tuple(KeyModel("", key.names, key.primary) for key in keys),
            foreign_keys=read_foreign_keys(session, table),
            comment=comments.get("", ""),
        ),
        native,
    )


def read_parts(session: MssqlSession, table: TableRef) -> tuple[TableModel, NativeParts]:
    """Return the columns, checks and indexes of a table, and its other parts."""
    columns = table_columns(session, table)
    names = [column.name for column in columns]
    # Columns from which other databases can compute the same values.
    exact = [column.name for column in columns if not _is_rounded(column.traits[TYPE])]
    facts = {name: values for name, *values in session.catalog_rows("column_parts", table)}
    checks = session.catalog_rows("checks", table)
    native = NativeParts(
        {name: called for name, (*_, called, unnamed) in facts.items() if called and not unnamed},
        tuple(text for _, _, text, distrusted, _ in checks if distrusted),
        read_indexes(session, table),
    )
    model = TableModel(
        tuple(_column(column, exact, *facts[column.name][:7]) for column in columns),
        checks=tuple(
            CheckModel(
                "" if unnamed else name,
                Expression(text, read(text, names, _STYLE)),
                enforced=not disabled,
            )
            for name, unnamed, text, _, disabled in checks
        ),
        indexes=tuple(indexes_of(native.indexes, names)),
    )
    return model, native


def _column(
    column: Column,
    exact: Sequence[str],
    sparse: Any,
    guid: Any,
    text: str | None,
    persisted: Any,
    first: str | None,
    step: str | None,
    default: str | None,
) -> ColumnModel:
    words = [column.type]
    if column.traits[COLLATION]:
        words.append(f"COLLATE {column.traits[COLLATION]}")
    words += ["SPARSE"] * bool(sparse) + ["ROWGUIDCOL"] * bool(guid)
    if text:
        words = ["AS", text] + ["PERSISTED"] * bool(persisted)
    generated = None
    if column.generated:
        generated = Generated(_expression(text or column.type, exact), stored=bool(persisted))
    return ColumnModel(
        column.name,
        type_model(column.traits[TYPE]),
        " ".join(words),
        # Nothing is known about values that are not stored.
        column.nullable or (bool(text) and not persisted),
        _expression(default) if default else None,
        identity=Identity(int(first), int(step)) if first and step else None,
        generated=generated,
    )


def _is_rounded(type_: MsType) -> bool:
    """Whether the server rounds values computed from such columns more than other databases do."""
    decimal = type_.name in ("decimal", "numeric")
    return type_.name in ("money", "smallmoney") or (decimal and type_.length > _MOST_EXACT)


def _expression(text: str, names: Sequence[str] = ()) -> Expression:
    return Expression(text, read(text, names, _STYLE))


def type_model(type_: MsType) -> ColumnType:
    """Return the system-independent form of a type."""
    if type_.name in _BITS:
        unsigned = type_.name == "tinyint"
        return ColumnType(table_model.INTEGER, unsigned=unsigned, bits=_BITS[type_.name])
    kind = TYPES.line(type_).kind
    has_length = type_.is_short_text or type_.name in ("binary", "varbinary")
    return ColumnType(kind, type_.length if has_length and type_.length != MAX else None)


def indexes_of(indexes: Sequence[NativeIndex], names: Sequence[str]) -> Iterator[IndexModel]:
    """Yield the indexes that are not keys.

    Args:
        indexes: all indexes of the table.
        names: the names of the table's columns.
    """
    for index in indexes:
        test = index.options.removeprefix(_WHERE) if index.options.startswith(_WHERE) else ""
        plain = not index.obstacle and " WITH (" not in index.options
        if plain and index.unique and not test:
            continue  # a key
        yield IndexModel(
            index.name,
            index.keys if plain else (),
            index.descending if plain else (),
            index.included if plain else (),
            index.unique,
            Expression(test, read(test, names)) if test else None,
            method=index.obstacle,
            text=index.columns,
        )
