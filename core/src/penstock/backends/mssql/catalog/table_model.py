"""The model of a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from penstock.backends.mssql.catalog.script import Written, WrittenColumn, WrittenIndex
from penstock.backends.mssql.types import MAX, TYPES, MsType
from penstock.backends.sql.dialect import LOWER, UPPER
from penstock.backends.sql.expressions import Style, read
from penstock.backends.sql.relations import TYPE
from penstock.backends.sql.unique_keys import DeclaredKey
from penstock.model import table_model
from penstock.model.table_model import (
    CheckModel,
    ColumnModel,
    ColumnType,
    Expression,
    ForeignKeyModel,
    Generated,
    Identity,
    IndexModel,
    KeyModel,
    TableModel,
)
from penstock.model.tables import Column

_STYLE = Style(
    plus_joins=True,
    functions={"lower": LOWER, "upper": UPPER, "coalesce": "coalesce", "isnull": "coalesce"},
)
_MOST_EXACT = 18
"""Digits of two numbers whose product has as many as there can be."""
_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}

_WHERE = " WHERE "


def model_of(
    written: Written,
    columns: Sequence[Column],
    keys: Sequence[DeclaredKey],
    foreign_keys: Sequence[ForeignKeyModel] = (),
    comments: Mapping[str, str] = MappingProxyType({}),
) -> TableModel:
    """
    Parameters:
        comments: of columns; that of the table has no name.
    """
    names = [column.name for column in columns]
    exact = [column.name for column in columns if not _is_rounded(column.traits[TYPE])]
    by_name = {column.name: column for column in columns}
    return TableModel(
        tuple(
            replace(_column(each, by_name[each.name], exact), comment=comments.get(each.name, ""))
            for each in written.columns
        ),
        tuple(KeyModel("", key.names, key.primary) for key in keys),
        tuple(
            CheckModel(
                each.called, Expression(each.test, read(each.test, names, _STYLE)), each.enabled
            )
            for each in written.checks
        ),
        tuple(_indexes(written.indexes, names)),
        tuple(foreign_keys),
        comments.get("", ""),
    )


def _column(written: WrittenColumn, column: Column, exact: Sequence[str]) -> ColumnModel:
    """
    Parameters:
        exact: columns from whose values others can be computed as well elsewhere.
    """
    identity = default = generated = None
    if written.identity:
        first, step = map(int, written.identity[len("IDENTITY(") : -1].split(","))
        identity = Identity(first, step)
    if written.default:
        default = _expression(written.default)
    if written.computed:
        text = written.type.removeprefix("AS ").removesuffix(" PERSISTED")
        generated = Generated(
            _expression(text, exact),
            stored=written.type.endswith(" PERSISTED"),
        )
    return ColumnModel(
        written.name,
        _type(column.traits[TYPE]),
        written.type,
        written.nullable,
        default,
        identity=identity,
        generated=generated,
    )


def _is_rounded(type_: MsType) -> bool:
    """Whether the server rounds what is computed from such values, to four digits or to fewer than
    other databases."""
    decimal = type_.name in ("decimal", "numeric")
    return type_.name in ("money", "smallmoney") or (decimal and type_.length > _MOST_EXACT)


def _expression(text: str, names: Sequence[str] = ()) -> Expression:
    return Expression(text, read(text, names, _STYLE))


def _type(type_: MsType) -> ColumnType:
    if type_.name in _BITS:
        unsigned = type_.name == "tinyint"
        return ColumnType(table_model.INTEGER, unsigned=unsigned, bits=_BITS[type_.name])
    kind = TYPES.line(type_).kind
    has_length = type_.is_short_text or type_.name in ("binary", "varbinary")
    return ColumnType(kind, type_.length if has_length and type_.length != MAX else None)


def _indexes(indexes: Sequence[WrittenIndex], names: Sequence[str]) -> Iterator[IndexModel]:
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
