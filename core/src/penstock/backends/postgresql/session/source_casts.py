"""The column and row of a value that the source's own cast rejects, which the server leaves out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing, suppress

import psycopg
from psycopg import sql

from penstock.backends.postgresql.connection import Connection
from penstock.errors import PenstockError, PermanentError
from penstock.model.tables import ColumnPair

# https://www.postgresql.org/docs/current/errcodes-appendix.html: data exceptions.
_DATA = "22"
# The first server that can tell whether a text is a value of a type.
_TELLS = 16_00_00


def with_place(
    error: PermanentError,
    pairs: Sequence[ColumnPair],
    opened: Callable[[], Connection],
    rows: Callable[[sql.Composable], sql.Composable],
) -> PermanentError:
    """Return an error with the column and row of the value, if the source casts a column.

    Args:
        error: the server's error while it sent the rows.
        pairs: the columns of the stream.
        opened: opens a session on the source.
        rows: returns the statement that reads these rows, given its select list.
    """
    casts = [pair for pair in pairs if pair.cast]
    if not casts or not error.diagnosis.code.startswith(_DATA):
        return error
    words = error.message.removeprefix("source: ")
    place = ""
    with suppress(psycopg.Error, PenstockError), closing(opened()) as connection:
        if connection.info.server_version >= _TELLS:
            place = next(filter(None, (_place(connection, pair, rows) for pair in casts)), "")
    if not place:
        place = " or ".join(f"column {pair.source!r}" for pair in casts)
    types = ", ".join(dict.fromkeys(pair.cast for pair in casts))
    return PermanentError(
        f"source: {place}: cannot be cast to {types}, the target's type: {words}", error.diagnosis
    )


def _place(
    connection: Connection, pair: ColumnPair, rows: Callable[[sql.Composable], sql.Composable]
) -> str:
    """Return the first value of a column that its type rejects; empty if it accepts all."""
    text = sql.SQL("{}::pg_catalog.text AS penstock_value").format(sql.Identifier(pair.source))
    query = sql.SQL(
        "SELECT penstock_row FROM (SELECT pg_catalog.row_number() OVER () AS penstock_row,"
        " penstock_value FROM ({}) AS r) AS r"
        " WHERE NOT pg_catalog.pg_input_is_valid(penstock_value, {})"
        " ORDER BY penstock_row LIMIT 1"
    ).format(rows(text), sql.Literal(pair.cast))
    found = connection.execute(query).fetchone()
    return "" if found is None else f"column {pair.source!r}, row {found[0]:,}"
