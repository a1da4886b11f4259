"""The columns of a relation, with the catalog's facts about their types."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from penstock.backends.postgresql.catalog.datatypes import DataType, Types
from penstock.backends.postgresql.catalog.relations import table_oid
from penstock.backends.postgresql.connection import Connection
from penstock.backends.postgresql.errors import planning
from penstock.backends.postgresql.session.statements import statement
from penstock.backends.shared.values.losses import COMPUTED
from penstock.errors import Diagnosis, PenstockError, PermanentError, TableReplaced
from penstock.model.tables import Column, Relation, TableRef


@dataclass(frozen=True, slots=True)
class Attribute:
    """A column as a server describes it."""

    name: str
    type: int
    """The type's object id."""
    typmod: int = -1
    nullable: bool = True
    generated: bool = False
    has_default: bool = False
    dimensions: int = 0
    """The declared dimensions of an array."""
    number: int = 0
    """The column's number among all that the table has ever had; 0 outside a table."""
    table: int = 0
    """The table's object id."""
    collation: str | None = None
    """See `Column`, as for the next one; None for an empty text."""
    formula: str | None = None


def read_columns(connection: Connection, ref: TableRef, side: str) -> tuple[Column, ...]:
    """Return a table's columns.

    Args:
        connection: a session on the server.
        ref: the table.
        side: the side of the server, for error messages.

    Raises:
        PlanningError: the table does not exist.
        TableReplaced: the target's table was dropped or recreated in between.
        PermanentError: the source's table was, so that a snapshot does not show its columns.
    """
    with planning(side, f"table {ref}"), connection.own_path():
        oid = table_oid(connection, ref, side)
        columns = columns_of(connection, [oid], Types(connection))
    if oid not in columns:
        error: type[PenstockError] = PermanentError if side == "source" else TableReplaced
        raise error(f"{side}: {ref} was dropped or recreated in the meantime", Diagnosis(side=side))
    return columns[oid]


def columns_of(
    connection: Connection, oids: Sequence[int], types: Types
) -> dict[int, tuple[Column, ...]]:
    """Return the columns of those relations that still exist.

    Args:
        connection: a session on the server.
        oids: the object ids of the relations.
        types: receives the columns' types.
    """
    rows = connection.execute(statement("columns"), {"oids": list(oids)}).fetchall()
    attributes_of: dict[int, list[Attribute]] = {row[0]: [] for row in rows}
    for oid, *attribute in rows:
        if attribute[0] is not None:
            attributes_of[oid].append(Attribute(*attribute))
    types.learn(
        (each.type, each.typmod) for attributes in attributes_of.values() for each in attributes
    )
    columns = {}
    for oid, attributes in attributes_of.items():
        with suppress(KeyError):  # a type was dropped, and the column with it
            columns[oid] = describe_columns(connection, attributes, types)
    return columns


def describe_columns(
    connection: Connection, attributes: Sequence[Attribute], type_cache: Types | None = None
) -> tuple[Column, ...]:
    """Describe columns, whichever relation they belong to.

    Args:
        connection: a session on the server.
        attributes: the columns.
        type_cache: the types read so far; read again if None.
    """
    types = (type_cache or Types(connection)).read((item.type, item.typmod) for item in attributes)
    encoding = connection.info.parameter_status("server_encoding")
    # Binary COPY looks up the input function of every column, even of columns that it does not
    # fill.
    all_send = all(kind.sends for kind, _ in types)
    return tuple(
        Column(
            item.name,
            text,
            item.nullable and kind.nullable,
            item.generated,
            item.has_default,
            {
                "type": kind,
                "encoding": encoding,
                "all_send": all_send,
                "dimensions": item.dimensions,
            },
            f"{item.table}.{item.number}" if item.number else "",
            collation=item.collation or "",
            formula=item.formula or "",
        )
        for item, (kind, text) in zip(attributes, types, strict=True)
    )


def planned_columns(
    columns: Iterable[Column], names: Sequence[str], side: str, relation: Relation
) -> list[Column]:
    """Return the columns that a run was planned with.

    Args:
        columns: all columns that the relation has now.
        names: the names of the planned columns.
        side: the side of the relation, for error messages.
        relation: the relation, for error messages.

    Raises:
        PermanentError: a planned column no longer exists.
    """
    by_name = {column.name: column for column in columns}
    missing = [name for name in names if name not in by_name]
    if missing:
        raise PermanentError(
            f"{side}: {relation}: expected the columns that the run was planned with, found no "
            f"{', '.join(map(repr, missing))}",
            Diagnosis(side=side),
        )
    return [by_name[name] for name in names]


def data_type(column: Column) -> DataType:
    """Return the type that `describe_columns` found for a column."""
    type_ = column.traits["type"]
    assert isinstance(type_, DataType)
    return type_


def unloadable_reason(column: Column) -> str:
    """Return why a target column cannot be loaded; empty if it can."""
    if column.generated:
        return COMPUTED
    if not data_type(column).loadable:
        return (
            f"no value of type {column.type} can be loaded: its input function rejects every value"
        )
    return ""
