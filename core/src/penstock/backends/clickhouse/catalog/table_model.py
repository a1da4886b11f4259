"""A table's model, from what the catalog lists."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from penstock.backends.clickhouse.session import ClickHouseSession
from penstock.backends.clickhouse.types import TYPES, ChType
from penstock.backends.sql.catalog.catalog_facts import TableQuery
from penstock.backends.sql.definitions.expressions import read
from penstock.backends.sql.definitions.parentheses import end_of_level
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
    "name, default_kind, default_expression, comment, compression_codec",
    "system.columns",
    "database",
    "table",
)
_TABLE = TableQuery("create_table_query, comment, engine_full", "system.tables", "database", "name")
_INDEXES = TableQuery(
    "name, type, expr", "system.data_skipping_indices", "database", "table", order="name"
)
# In the full text of an engine.
_CLAUSE = re.compile(r" (?=(?:PARTITION BY|PRIMARY KEY|ORDER BY|SAMPLE BY|TTL|SETTINGS) )")
_PLAIN = re.compile(r"MergeTree|(?:PARTITION|ORDER) BY .+|SETTINGS index_granularity = 8192")
_CHECK = re.compile(r"[(,]\s*CONSTRAINT (`(?:[^`\\]|\\.)+`|\w+) CHECK ")
_LABEL = re.compile(r"'((?:[^'\\]|\\.|'')*)'(?:\s*=\s*-?\d+)?")

PARTITION_BY = "PARTITION BY "


def model_of(
    session: ClickHouseSession,
    table: TableRef,
    columns: Sequence[Column],
    types: Mapping[str, ChType],
    partition: str,
) -> TableModel:
    """Return the model of a table.

    Args:
        session: a session with the server.
        table: the table.
        columns: the table's columns.
        types: the types of the columns.
        partition: the table's partition key.
    """
    facts_by_name = {name: facts for name, *facts in session.about(_COLUMNS, table)}
    names = [column.name for column in columns]
    ((statement, comment, _),) = session.about(_TABLE, table)
    return TableModel(
        tuple(_column(each, types[each.name], *facts_by_name[each.name][:3]) for each in columns),
        checks=tuple(_checks(str(statement), names)),
        indexes=tuple(
            # It finds parts of the table, not rows.
            IndexModel(name, method=kind, text=f"({expression})")
            for name, kind, expression in session.about(_INDEXES, table)
        ),
        comment=str(comment),
        partitioning=f"{PARTITION_BY}{partition}" if partition else "",
    )


def other_objects(
    session: ClickHouseSession, table: TableRef, columns: Sequence[Column]
) -> Iterator[NotCopied]:
    """Yield parts that the model cannot hold.

    They are computed columns, which are read only if they are named; compression of columns; and
    other functions of the engine.

    Args:
        session: a session with the server.
        table: the table.
        columns: all other columns.
    """
    names = {column.name for column in columns}
    for name, kind, text, _, codec in session.about(_COLUMNS, table):
        if name not in names:
            yield NotCopied(table_model.GENERATED, f"{name}: {kind} {text}".rstrip())
        elif codec:
            yield NotCopied("column options", f"{name}: {codec}")
    ((_, _, engine),) = session.about(_TABLE, table)
    for clause in _CLAUSE.split(engine):
        if clause and not _PLAIN.fullmatch(clause):
            yield NotCopied("table options", clause)


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
    kind = TYPES.line(type_).kind
    if kind == table_model.INTEGER:
        unsigned, _, bits = type_.name.partition("Int")
        return ColumnType(kind, unsigned=bool(unsigned), bits=int(bits))
    if kind == table_model.ENUM:
        matches = [_LABEL.match(argument) for argument in type_.arguments]
        labels = tuple(re.sub(r"\\(.)", r"\1", each[1]) for each in matches if each)
        return ColumnType(kind, labels=labels)
    return ColumnType(kind)


def _checks(statement: str, names: Sequence[str]) -> Iterator[CheckModel]:
    for match in _CHECK.finditer(statement):
        text = statement[match.end() : end_of_level(statement, match.end(), "),", "'`")].strip()
        name = re.sub(r"\\(.)", r"\1", match[1].strip("`"))
        yield CheckModel(name, Expression(text, read(text, names)))
