"""MariaDB's sequences, which belong to no table."""

from __future__ import annotations

import re
from collections.abc import Sequence

from penstock.backends.mysql.session import MySqlSession
from penstock.backends.sql.catalog.relations import matching_tables
from penstock.model.tables import NotCopied, TableRef

_ALL = (
    "SELECT table_schema, table_name FROM information_schema.tables"
    " WHERE table_type = 'SEQUENCE' ORDER BY table_schema, table_name"
)
_PLAIN = re.compile(r"[a-z_][a-z0-9_]*")


def omitted_sequences(
    session: MySqlSession, include: Sequence[str], exclude: Sequence[str]
) -> tuple[NotCopied, ...]:
    """Return matching sequences with statements that continue at their positions.

    Args:
        session: a session on a MariaDB source.
        include: patterns of ``schema.name``, see `matching_tables`.
        exclude: patterns of sequences to leave out.
    """
    sequences = [TableRef(schema, name) for schema, name in session.fetch(_ALL, "sequences")]
    return tuple(
        _omitted_sequence(session, each) for each in matching_tables(sequences, include, exclude)
    )


def _omitted_sequence(session: MySqlSession, sequence: TableRef) -> NotCopied:
    ((first, least, most, step, cached, cycles),) = session.fetch(
        "SELECT next_not_cached_value, minimum_value, maximum_value, increment, cache_size,"
        f" cycle_option FROM {session.table(sequence)}",
        f"sequence {sequence}",
    )
    # In a form that other databases accept too.
    plain = _PLAIN.fullmatch(sequence.name)
    words = [
        f"CREATE SEQUENCE {sequence.name if plain else session.dialect.ident(sequence.name)}",
        f"START WITH {first} MINVALUE {least} MAXVALUE {most}",
        f"INCREMENT BY {step or 1} CACHE {cached or 1}{' CYCLE' * bool(cycles)};",
    ]
    return NotCopied("sequences", str(sequence), " ".join(words))
