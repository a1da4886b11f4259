"""Sequences that give columns their values, and how far they have come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from psycopg import sql

from penstock.backends.postgresql.catalog.relations import find_oid
from penstock.backends.postgresql.connection import Connection
from penstock.backends.postgresql.errors import planning
from penstock.backends.postgresql.statements import quoted, statement
from penstock.model.tables import SequencePosition, TableRef


@dataclass(frozen=True, slots=True)
class ColumnSequence:
    """A sequence, and the column of a table that it gives values to."""

    column: str
    ref: TableRef
    increment: int
    readable: bool = True
    writable: bool = True


def column_sequences(connection: Connection, oid: int) -> list[ColumnSequence]:
    rows = connection.execute(
        statement("column_sequences").format(table=sql.Literal(oid))
    ).fetchall()
    return [
        ColumnSequence(column, TableRef(schema, sequence), increment, readable, writable)
        for column, schema, sequence, increment, readable, writable in rows
    ]


def read_position(connection: Connection, ref: TableRef) -> list[Any]:
    """The last value of a sequence, and whether it was given out."""
    query = sql.SQL("SELECT last_value, is_called FROM {}").format(quoted(ref))
    return list(connection.first(query))


def positions(connection: Connection, ref: TableRef) -> Mapping[str, SequencePosition]:
    """See `SourceCatalog.positions`."""
    found: dict[str, SequencePosition] = {}
    with planning("source", f"sequences of {ref}"):
        oid = find_oid(connection, ref)
        for sequence in column_sequences(connection, oid) if oid is not None else ():
            if not sequence.readable:
                continue
            position = SequencePosition(*read_position(connection, sequence.ref))
            before = found.get(sequence.column)
            if before is None or _beyond(position, before, sequence.increment):
                found[sequence.column] = position
    return found


def _beyond(one: SequencePosition, other: SequencePosition, increment: int) -> bool:
    sign = 1 if increment > 0 else -1
    return (sign * one.last, one.called) > (sign * other.last, other.called)
