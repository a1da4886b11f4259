"""The model of a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from penstock.backends.mssql.catalog import UniqueKey
from penstock.backends.mssql.written import Written, WrittenColumn, WrittenIndex
from penstock.backends.sql.expressions import read
from penstock.backends.sql.relations import TYPE
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

_WHERE = " WHERE "


def model_of(
    written: Written,
    columns: Sequence[Column],
    keys: Sequence[UniqueKey],
    foreign_keys: Sequence[ForeignKeyModel] = (),
    comments: Mapping[str, str] = MappingProxyType({}),
) -> TableModel:
    """
    Parameters:
        comments: of columns; that of the table has no name.
    """
    names = [column.name for column in columns]
    by_name = {column.name: column for column in columns}
    return TableModel(
        tuple(
            replace(_column(each, by_name[each.name], names), comment=comments.get(each.name, ""))
            for each in written.columns
        ),
        tuple(KeyModel("", key.names, key.primary) for key in keys),
        tuple(
            CheckModel(each.called, Expression(each.test, read(each.test, names)), each.enabled)
            for each in written.checks
        ),
        tuple(_indexes(written.indexes, names)),
        tuple(foreign_keys),
        comments.get("", ""),
    )


def _column(written: WrittenColumn, column: Column, names: Sequence[str]) -> ColumnModel:
    type_ = column.traits[TYPE]
    length = type_.length if type_.is_short_text else None
    kind = table_model.TEXT if type_.is_short_text else table_model.OTHER
    identity = default = generated = None
    if written.identity:
        first, step = map(int, written.identity[len("IDENTITY(") : -1].split(","))
        identity = Identity(first, step)
    if written.default:
        default = Expression(written.default, read(written.default))
    if written.computed:
        text = written.type.removeprefix("AS ").removesuffix(" PERSISTED")
        expression = Expression(text, read(text, names))
        generated = Generated(expression, stored=written.type.endswith(" PERSISTED"))
    return ColumnModel(
        written.name,
        ColumnType(kind, length),
        written.type,
        written.nullable,
        default,
        identity=identity,
        generated=generated,
    )


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
