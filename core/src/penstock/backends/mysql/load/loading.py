"""Starting a load in the fastest way that a server supports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.backends.api.execution.attempt import LoadStream
from penstock.backends.api.worker import Wait
from penstock.backends.mysql.connection import Connection
from penstock.backends.mysql.stream.encoding import refusal
from penstock.backends.mysql.stream.infile import InfileStream, LineStream
from penstock.backends.mysql.stream.inserts import InsertStream
from penstock.model.tables import Column


@dataclass(frozen=True, slots=True)
class LoadSettings:
    """A server's settings for a session that loads."""

    files: bool
    """Whether it accepts LOAD DATA LOCAL, in a single transaction: a Galera cluster may split it
    into several, and commit them.
    """
    most: int
    """The maximum packet size in bytes."""


def read_settings(connection: Connection) -> LoadSettings:
    """Read the settings that decide how a session loads."""
    variables = dict(
        connection.rows(
            "SHOW VARIABLES WHERE Variable_name IN"
            " ('local_infile', 'wsrep_load_data_splitting', 'max_allowed_packet')"
        )
    )
    files = variables["local_infile"] == "ON" and variables.get("wsrep_load_data_splitting") != "ON"
    return LoadSettings(files, int(variables["max_allowed_packet"]))


def load_stream(
    connection: Connection,
    table: str,
    columns: Sequence[Column],
    all_columns: Sequence[Column],
    settings: LoadSettings,
    wait: Wait,
    *,
    lines: bool = False,
) -> LoadStream:
    """Begin to load a table, within the open transaction.

    Args:
        connection: a connection opened with `loads`.
        table: the quoted name.
        columns: the columns of the batches, in order, from `catalog.tables.table_columns`.
        all_columns: all columns of the table.
        settings: the server's settings, from `read_settings`.
        wait: waits for the socket, within the stall timeout.
        lines: whether blocks are lines, see `lines.line_fit`.

    Raises:
        PermanentError: a column would change values, or the server does not accept lines.
    """
    loaded = {column.name for column in columns}
    for column in all_columns:
        if column.name not in loaded and _is_lacking(column):
            raise refusal(
                table,
                "a default value, since the column is not loaded",
                column.type,
                f"column {column.name!r}: ",
            )
    for column in columns:
        if column.generated:
            place = f"column {column.name!r}: "
            raise refusal(table, "a column that is not computed", column.type, place)
    if lines and not settings.files:
        raise refusal(table, "local_infile = ON, as when the run was planned", "OFF")
    kind = LineStream if lines else InfileStream if settings.files else InsertStream
    stream = kind(connection, table, columns, settings.most)
    stream.start(wait)
    return stream


def _is_lacking(column: Column) -> bool:
    """Whether a column has no value if it is not loaded.

    LOAD DATA LOCAL makes one up, in MySQL without a warning.
    """
    return not (column.nullable or column.has_default or column.generated)
