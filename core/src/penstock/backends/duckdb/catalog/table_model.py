"""A table's model, from what the catalog lists."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from penstock.backends.duckdb.catalog.tables import query
from penstock.backends.duckdb.dialect import ident
from penstock.backends.duckdb.session import DuckSession
from penstock.backends.sql.catalog.relations import TYPE
from penstock.backends.sql.definitions.expressions import read
from penstock.backends.sql.dialect import Type
from penstock.backends.sql.session import Session
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
from penstock.model.tables import Column, SequencePosition, TableRef

_COLUMNS = query("column_name, column_default, comment", "duckdb_columns()", "column_index")
_COMMENT = query("comment", "duckdb_tables()")
_CONSTRAINTS = query(
    "constraint_type, expression, constraint_column_names, referenced_table,"
    " referenced_column_names",
    "duckdb_constraints()",
    "constraint_index",
)
_INDEXES = query("index_name, is_unique, expressions", "duckdb_indexes()", "index_name")
_NAME = r'(?:"(?:[^"]|"")+"|[A-Za-z_]\w*)'
_NEXT = re.compile(rf"nextval\('((?:(?:{_NAME})\.)*)({_NAME})'\)")
_PART = re.compile(rf"'?({_NAME})'?(?:, |$)")
_KINDS = {
    "boolean": table_model.BOOLEAN,
    "float": table_model.FLOAT,
    "double": table_model.FLOAT,
    "decimal": table_model.DECIMAL,
    "varchar": table_model.TEXT,
    "blob": table_model.BYTES,
    "date": table_model.DATE,
    "time": table_model.TIME,
    "timestamp": table_model.TIMESTAMP,
    "timestamp_s": table_model.TIMESTAMP,
    "timestamp_ms": table_model.TIMESTAMP,
    "timestamp_ns": table_model.TIMESTAMP,
    "timestamp with time zone": table_model.MOMENT,
    "uuid": table_model.UUID,
    "list": table_model.ARRAY,
    "array": table_model.ARRAY,
}
_BITS = {"tinyint": 8, "smallint": 16, "integer": 32, "bigint": 64, "hugeint": 128}


@dataclass(frozen=True, slots=True)
class OwnSequence:
    """A sequence that numbers a column."""

    ref: TableRef
    first: int
    step: int
    last: int | None
    """The last number it gave; None if it has given none."""


def model_of(session: DuckSession, table: TableRef, columns: Sequence[Column]) -> TableModel:
    """Return the model of a table.

    Args:
        session: a session with the database.
        table: the table.
        columns: with the trait `TYPE`.
    """
    names = [column.name for column in columns]
    facts_by_name = {
        name: (default, comment) for name, default, comment in session.about(_COLUMNS, table)
    }
    sequences = numbering_of(session, table)
    keys, checks, foreign_keys = [], [], []
    for kind, test, column_names, referenced_table, referenced in session.about(
        _CONSTRAINTS, table
    ):
        if kind in ("PRIMARY KEY", "UNIQUE"):
            keys.append(KeyModel("", tuple(column_names), kind == "PRIMARY KEY"))
        elif kind == "CHECK":
            checks.append(CheckModel("", Expression(test, read(test, names))))
        elif kind == "FOREIGN KEY":
            # DuckDB has no foreign keys across schemas.
            target = TableRef(table.schema, referenced_table)
            name = "_".join([table.name, *column_names, "fkey"])
            foreign_keys.append(
                ForeignKeyModel(name, tuple(column_names), target, tuple(referenced))
            )
    ((comment,),) = session.about(_COMMENT, table)
    return TableModel(
        tuple(_column(each, *facts_by_name[each.name], names, sequences) for each in columns),
        tuple(sorted(keys, key=lambda key: not key.primary)),
        tuple(checks),
        tuple(_indexes(session, table)),
        tuple(foreign_keys),
        comment or "",
    )


def positions_of(session: DuckSession, table: TableRef) -> Mapping[str, SequencePosition]:
    """See `SourceCatalog.positions`."""
    return {
        name: SequencePosition(
            sequence.first if sequence.last is None else sequence.last, sequence.last is not None
        )
        for name, sequence in numbering_of(session, table).items()
    }


def numbering_of(session: Session, table: TableRef) -> dict[str, OwnSequence]:
    """Return the sequences that number a table's columns, by column."""
    by_column = {}
    sequences = None
    for name, default, _ in session.about(_COLUMNS, table):
        match = _NEXT.fullmatch((default or "").replace("''", "'"))
        if match is None:
            continue
        if sequences is None:
            sequences = {
                (schema, sequence): OwnSequence(TableRef(schema, sequence), first, step, last)
                for schema, sequence, first, step, last in session.fetch(
                    "SELECT schema_name, sequence_name, start_value, increment_by, last_value"
                    " FROM duckdb_sequences() WHERE database_name = $1",
                    f"table {table}",
                    [session.catalog],
                )
            }
        parts = [_plain(part) for part in re.findall(_NAME, match[1])]
        schema = parts[-1] if parts else "main"
        if (schema, _plain(match[2])) in sequences:
            by_column[name] = sequences[schema, _plain(match[2])]
    return by_column


def _column(
    column: Column,
    default: str | None,
    comment: str | None,
    names: Sequence[str],
    sequences: Mapping[str, OwnSequence],
) -> ColumnModel:
    identity = generated = None
    expression = Expression(default, read(default)) if default is not None else None
    if column.generated and default is not None:
        expression, generated = None, Generated(Expression(default, read(default, names)))
    elif column.name in sequences:
        sequence = sequences[column.name]
        identity = Identity(sequence.first, sequence.step, text=default or "")
        expression = None
    return ColumnModel(
        column.name,
        _type(column.traits[TYPE]),
        column.type,
        column.nullable,
        expression,
        identity=identity,
        generated=generated,
        comment=comment or "",
    )


def _type(type_: Type) -> ColumnType:
    type_id = type_.id
    if type_id == "enum":
        return ColumnType(table_model.ENUM, labels=tuple(dict(type_.children)["values"]))
    if type_id.removeprefix("u") in _BITS:
        unsigned = type_id.startswith("u")
        return ColumnType(
            table_model.INTEGER, unsigned=unsigned, bits=_BITS[type_id.removeprefix("u")]
        )
    if str(type_) == "JSON":
        return ColumnType(table_model.JSON)
    return ColumnType(_KINDS.get(type_id, table_model.OTHER))


def _indexes(session: DuckSession, table: TableRef) -> Iterator[IndexModel]:
    for name, unique, expressions in session.about(_INDEXES, table):
        text = str(expressions).removeprefix("[").removesuffix("]")
        parts = _PART.findall(text)
        is_plain = "".join(match[0] for match in _PART.finditer(text)) == text
        columns = tuple(map(_plain, parts)) if is_plain else ()
        listed = ", ".join(map(ident, columns)) if columns else text
        yield IndexModel(name, columns, unique=bool(unique), text=f"({listed})")


def _plain(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name
