"""Sequences that give columns their values, and how far they have come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    """Those of one table."""
    return sequences_of(connection, [oid])[oid]


def sequences_of(connection: Connection, oids: Sequence[int]) -> dict[int, list[ColumnSequence]]:
    """Those of tables, by the object ids of these."""
    query = statement("column_sequences").format(tables=sql.Literal(list(oids)))
    found: dict[int, list[ColumnSequence]] = {oid: [] for oid in oids}
    for oid, column, schema, sequence, *rest in connection.execute(query).fetchall():
        found[oid].append(ColumnSequence(column, TableRef(schema, sequence), *rest))
    return found


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
