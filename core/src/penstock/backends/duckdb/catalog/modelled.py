"""The model of a table, as far as its columns, keys and checks go."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.backends.duckdb.catalog.tables import Constraint, constraints, query
from penstock.backends.duckdb.session import DuckSession
from penstock.backends.sql.definition import KEYS
from penstock.backends.sql.expressions import read
from penstock.backends.sql.relations import TYPE
from penstock.model import table_model
from penstock.model.table_model import (
    CheckModel,
    ColumnModel,
    ColumnType,
    Expression,
    Generated,
    Identity,
    KeyModel,
    TableModel,
)
from penstock.model.tables import Column, SequencePosition, TableRef

_COLUMNS = query("column_name, column_default, comment", "duckdb_columns()", "column_index")
_SEQUENCES = (
    "SELECT schema_name, sequence_name, start_value, increment_by, last_value"
    " FROM duckdb_sequences() WHERE database_name = $1"
)
_NUMBERED = re.compile(r"nextval\('((?:[^']|'')+)'\)")
_NAME = r'(?:"(?:[^"]|"")+"|[^".]+)'
_NAMED = re.compile(rf"(?:{_NAME}\.)?(?:({_NAME})\.)?({_NAME})")
_CHECK = re.compile(r"CHECK ?\((.*)\)", re.DOTALL)
_BITS = {"tinyint": 8, "smallint": 16, "integer": 32, "bigint": 64}
_KINDS = {
    "boolean": table_model.BOOLEAN,
    "decimal": table_model.DECIMAL,
    "float": table_model.FLOAT,
    "double": table_model.FLOAT,
    "varchar": table_model.TEXT,
    "blob": table_model.BYTES,
    "date": table_model.DATE,
    "time": table_model.TIME,
    "timestamp": table_model.TIMESTAMP,
    "timestamp with time zone": table_model.MOMENT,
    "uuid": table_model.UUID,
    "list": table_model.ARRAY,
    "array": table_model.ARRAY,
}


@dataclass(frozen=True, slots=True)
class Numbering:
    """A sequence that numbers the rows of a column."""

    first: int
    step: int
    last: int | None
    """The number that was handed out last; None: none was."""

    @property
    def position(self) -> SequencePosition:
        if self.last is None:
            return SequencePosition(self.first, called=False)
        return SequencePosition(self.last, called=True)


def model_of(session: DuckSession, table: TableRef, columns: Sequence[Column]) -> TableModel:
    """
    Parameters:
        columns: with the trait `TYPE`.
    """
    names = [column.name for column in columns]
    found = constraints(session, table)
    keys = [each for each in found if each.kind in KEYS]
    written = {name: words for name, *words in session.about(_COLUMNS, table)}
    numbered = numbered_columns(session, table)
    return TableModel(
        tuple(_column(each, written[each.name], names, numbered) for each in columns),
        tuple(KeyModel("", each.names, each.primary) for each in sorted(keys, key=_rank)),
        tuple(_checks(found, names)),
    )


def numbered_columns(session: DuckSession, table: TableRef) -> dict[str, Numbering]:
    """The sequences of the columns whose default is their next number."""
    found: dict[str, Numbering] = {}
    for name, default, _ in session.about(_COLUMNS, table):
        call = _NUMBERED.fullmatch(default or "")
        named = _NAMED.fullmatch(call[1].replace("''", "'")) if call else None
        if named is None:
            continue
        wanted = TableRef(_unquoted(named[1] or "main"), _unquoted(named[2]))
        for schema, sequence, *numbers in session.once(_SEQUENCES, "sequences", [session.catalog]):
            if TableRef(schema, sequence) == wanted:
                found[name] = Numbering(*numbers)
    return found


def _unquoted(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name


def _rank(key: Constraint) -> bool:
    return not key.primary


def _column(
    column: Column,
    written: Sequence[str | None],
    names: Sequence[str],
    numbered: Mapping[str, Numbering],
) -> ColumnModel:
    """
    Parameters:
        written: the default, and the comment.
    """
    default, comment = written
    found = ColumnModel(
        column.name, _type(column), column.type, column.nullable, comment=comment or ""
    )
    if default is None:
        return found
    if column.generated:
        expression = Expression(f"({default})", read(default, names))
        return replace(found, generated=Generated(expression, stored=False))
    if column.name in numbered:
        numbering = numbered[column.name]
        return replace(found, identity=Identity(numbering.first, numbering.step, text=default))
    return replace(found, default=Expression(default, read(default)))


def _type(column: Column) -> ColumnType:
    type_ = column.traits[TYPE]
    if column.type == "JSON":
        return ColumnType(table_model.JSON)
    if type_.id == "enum":
        return ColumnType(table_model.ENUM, labels=tuple(type_.children[0][1]))
    if type_.id in _BITS:
        return ColumnType(table_model.INTEGER, bits=_BITS[type_.id])
    if type_.id.removeprefix("u") in _BITS:
        return ColumnType(table_model.INTEGER, unsigned=True, bits=_BITS[type_.id[1:]])
    return ColumnType(_KINDS.get(type_.id, table_model.OTHER))


def _checks(found: Sequence[Constraint], names: Sequence[str]) -> Iterator[CheckModel]:
    for each in found:
        if each.kind == "CHECK" and (test := _CHECK.fullmatch(each.text)):
            yield CheckModel("", Expression(test[1], read(test[1], names)))
