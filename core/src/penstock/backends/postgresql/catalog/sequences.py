"""Sequences that fill columns, and their positions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from psycopg import sql

from penstock.backends.postgresql.connection import Connection
from penstock.backends.postgresql.session.statements import quoted, statement
from penstock.model.tables import SequencePosition, TableRef

# Sequence positions read per statement.
AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class ColumnSequence:
    """A sequence, and the table column that it fills."""

    column: str
    ref: TableRef
    increment: int
    readable: bool = True
    writable: bool = True


def sequences_of(connection: Connection, oids: Sequence[int]) -> dict[int, list[ColumnSequence]]:
    """Return the sequences of tables, by the tables' object ids."""
    query = statement("column_sequences").format(tables=sql.Literal(list(oids)))
    sequences: dict[int, list[ColumnSequence]] = {oid: [] for oid in oids}
    for oid, column, schema, sequence, *facts in connection.execute(query).fetchall():
        sequences[oid].append(ColumnSequence(column, TableRef(schema, sequence), *facts))
    return sequences


def read_positions(
    connection: Connection, refs: Iterable[TableRef]
) -> dict[TableRef, tuple[int, bool]]:
    """Return the last value of each sequence, and whether it has been used."""
    unique = list(dict.fromkeys(refs))
    positions: dict[TableRef, tuple[int, bool]] = {}
    for first in range(0, len(unique), AT_ONCE):
        batch = unique[first : first + AT_ONCE]
        queries = (
            sql.SQL("SELECT {}::int, last_value, is_called FROM {}").format(place, quoted(ref))
            for place, ref in enumerate(batch)
        )
        rows = connection.execute(sql.SQL(" UNION ALL ").join(queries)).fetchall()
        positions |= {batch[place]: (last, called) for place, last, called in rows}
    return positions


def positions_of(
    connection: Connection, oids: Sequence[int]
) -> dict[int, Mapping[str, SequencePosition]]:
    """See `SourceCatalog.positions`."""
    sequences = sequences_of(connection, oids)
    readable = [each for some in sequences.values() for each in some if each.readable]
    positions = read_positions(connection, (each.ref for each in readable))
    return {oid: _furthest(some, positions) for oid, some in sequences.items()}


def _furthest(
    sequences: Sequence[ColumnSequence], positions: Mapping[TableRef, tuple[int, bool]]
) -> Mapping[str, SequencePosition]:
    furthest: dict[str, SequencePosition] = {}
    for sequence in sequences:
        if not sequence.readable:
            continue
        position = SequencePosition(*positions[sequence.ref])
        before = furthest.get(sequence.column)
        if before is None or _beyond(position, before, sequence.increment):
            furthest[sequence.column] = position
    return furthest


def _beyond(position: SequencePosition, other: SequencePosition, increment: int) -> bool:
    sign = 1 if increment > 0 else -1
    return (sign * position.last, position.called) > (sign * other.last, other.called)
