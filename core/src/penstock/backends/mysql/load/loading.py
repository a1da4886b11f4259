"""Begins to load, by the fastest way that a server takes."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.backends.api.attempt import LoadStream
from penstock.backends.api.worker import Wait
from penstock.backends.mysql.connection import Connection
from penstock.backends.mysql.errors import translated
from penstock.backends.mysql.load.encoding import refusal
from penstock.backends.mysql.load.infile import InfileStream, LineStream
from penstock.backends.mysql.load.inserts import InsertStream
from penstock.backends.mysql.load.wire import SIDE
from penstock.model.tables import Column

_SETTINGS = "SET SESSION sql_notes = 1"


def takes_files(connection: Connection) -> bool:
    """Whether the server takes LOAD DATA LOCAL, and all of it in one transaction: a Galera cluster
    may split it into several, and commit them."""
    found = dict(
        connection.rows(
            "SHOW VARIABLES WHERE Variable_name IN ('local_infile', 'wsrep_load_data_splitting')"
        )
    )
    return found["local_infile"] == "ON" and found.get("wsrep_load_data_splitting") != "ON"


def load_stream(
    connection: Connection,
    table: str,
    columns: Sequence[Column],
    local_infile: bool,
    wait: Wait,
    *,
    lines: bool = False,
) -> LoadStream:
    """Begin to load into a table, within the transaction that is open.

    Parameters:
        table: quoted.
        columns: those of the batches, in their order, as `catalog.tables.table_columns` has them.
        local_infile: see `takes_files`.
        lines: blocks are lines, see `lines.carried`.

    Raises:
        PermanentError: a column would not keep values as they are, or the server takes no lines.
    """
    with translated(SIDE, table), wait.answering(SIDE):
        connection.change(_SETTINGS)
        ((most,),) = connection.rows("SELECT @@max_allowed_packet")
        found = connection.rows(f"SHOW FULL COLUMNS FROM {table}")
    loaded = {column.name for column in columns}
    for name, type_, _, nullable, _, default, extra, *_ in found:
        if name not in loaded and _is_lacking(nullable, default, extra):
            raise refusal(
                table, "a default value, as it is not loaded", type_, f"column {name!r}: "
            )
    for column in columns:
        if column.generated:
            place = f"column {column.name!r}: "
            raise refusal(table, "one that is not computed", column.type, place)
    if lines and not local_infile:
        raise refusal(table, "local_infile = ON, as when the run was planned", "OFF")
    kind = LineStream if lines else InfileStream if local_infile else InsertStream
    stream = kind(connection, table, columns, most)
    stream.start(wait)
    return stream


def _is_lacking(nullable: str, default: str | None, extra: str) -> bool:
    """Whether a column has nothing to hold where it is not loaded: LOAD DATA LOCAL makes something
    up, in MySQL without a warning."""
    filled = "auto_increment" in extra or "GENERATED" in extra
    return nullable == "NO" and default is None and not filled
