"""The model of a table, from what the catalog lists of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from penstock.backends.clickhouse.session import ClickHouseSession
from penstock.backends.clickhouse.types import ChType
from penstock.backends.sql.described import TableQuery
from penstock.backends.sql.expressions import read
from penstock.model import table_model
from penstock.model.table_model import (
    CheckModel,
    ColumnModel,
    ColumnType,
    Expression,
    IndexModel,
    TableModel,
)
from penstock.model.tables import Column, NotCopied, TableRef

_COLUMNS = TableQuery(
    "name, default_kind, default_expression, comment", "system.columns", "database", "table"
)
_TABLE = TableQuery("create_table_query, comment", "system.tables", "database", "name")
_INDEXES = TableQuery(
    "name, type, expr", "system.data_skipping_indices", "database", "table", order="name"
)
_CHECK = re.compile(r"[(,]\s*CONSTRAINT (`(?:[^`\\]|\\.)+`|\w+) CHECK ")
_KINDS = {
    "Bool": table_model.BOOLEAN,
    "Float32": table_model.FLOAT,
    "Float64": table_model.FLOAT,
    "Decimal": table_model.DECIMAL,
    "String": table_model.TEXT,
    "FixedString": table_model.BYTES,
    "Date": table_model.DATE,
    "Date32": table_model.DATE,
    "DateTime": table_model.MOMENT,
    "DateTime64": table_model.MOMENT,
    "UUID": table_model.UUID,
    "Array": table_model.ARRAY,
}
_WHOLE = re.compile(r"(U?)Int(\d+)")
_LABEL = re.compile(r"'((?:[^'\\]|\\.|'')*)'(?:\s*=\s*-?\d+)?")


def model_of(
    session: ClickHouseSession,
    table: TableRef,
    columns: Sequence[Column],
    types: Mapping[str, ChType],
    partition: str,
) -> TableModel:
    """
    Parameters:
        types: of the columns.
        partition: the table's partition key.
    """
    said = {name: facts for name, *facts in session.about(_COLUMNS, table)}
    names = [column.name for column in columns]
    ((made, comment),) = session.about(_TABLE, table)
    return TableModel(
        tuple(_column(each, types[each.name], *said[each.name]) for each in columns),
        checks=tuple(_checks(str(made), names)),
        indexes=tuple(
            # It finds parts of the table, not rows.
            IndexModel(name, method=kind, text=f"({expression})")
            for name, kind, expression in session.about(_INDEXES, table)
        ),
        comment=str(comment),
        partitioning=f"PARTITION BY {partition}" if partition else "",
    )


def computed_of(
    session: ClickHouseSession, table: TableRef, columns: Sequence[Column]
) -> Iterator[NotCopied]:
    """The columns that are computed, and read where they are asked for by name alone.

    Parameters:
        columns: the others.
    """
    known = {column.name for column in columns}
    for name, kind, text, _ in session.about(_COLUMNS, table):
        if name not in known:
            yield NotCopied(table_model.GENERATED, f"{name}: {kind} {text}".rstrip())


def _column(column: Column, type_: ChType, kind: str, text: str, comment: str) -> ColumnModel:
    default = Expression(text, read(text)) if kind == "DEFAULT" else None
    return ColumnModel(
        column.name,
        _type(type_),
        column.type,
        column.nullable,
        default,
        comment=comment,
    )


def _type(type_: ChType) -> ColumnType:
    if whole := _WHOLE.fullmatch(type_.name):
        return ColumnType(table_model.INTEGER, unsigned=bool(whole[1]), bits=int(whole[2]))
    if type_.name in ("Enum8", "Enum16"):
        found = [_LABEL.match(argument) for argument in type_.arguments]
        labels = tuple(re.sub(r"\\(.)", r"\1", each[1]) for each in found if each)
        return ColumnType(table_model.ENUM, labels=labels)
    return ColumnType(_KINDS.get(type_.name, table_model.OTHER))


def _checks(made: str, names: Sequence[str]) -> Iterator[CheckModel]:
    for found in _CHECK.finditer(made):
        text = _until_comma(made, found.end())
        name = re.sub(r"\\(.)", r"\1", found[1].strip("`"))
        yield CheckModel(name, Expression(text, read(text, names)))


def _until_comma(text: str, start: int) -> str:
    """The text from an index up to the next comma or closing parenthesis of the same level."""
    depth, quote, place = 0, "", start
    while place < len(text):
        character = text[place]
        if quote:
            if character == "\\":
                place += 1
            elif character == quote:
                quote = ""
        elif character in "'`":
            quote = character
        elif character in "([":
            depth += 1
        elif character in ")]" and depth:
            depth -= 1
        elif character in ")," and not depth:
            break
        place += 1
    return text[start:place].strip()
