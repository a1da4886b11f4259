"""COPY FROM STDIN: the blocks of an attempt, in the server's own format or as record batches."""

from __future__ import annotations

import select
import time
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import psycopg
from psycopg import sql
from psycopg.pq import ExecStatus

from penstock.backends.api.worker import ARROW, CSV, Block, Wait
from penstock.backends.postgresql.catalog.columns import planned_columns, read_columns
from penstock.backends.postgresql.connection import Connection
from penstock.backends.postgresql.errors import translated
from penstock.backends.postgresql.load.pending_error import has_pending_error
from penstock.backends.postgresql.native import CopySink
from penstock.backends.postgresql.session.cancellable import end_copy, flush, start_copy
from penstock.backends.postgresql.session.statements import column_list, copy_format, statement
from penstock.errors import Diagnosis, TransientError
from penstock.model.tables import Column
from penstock.spec.worker_spec import WorkerSpec

if TYPE_CHECKING:
    from penstock.backends.postgresql.arrow.encoder import Encoder

# A larger row is handed to libpq in pieces, because libpq would copy it whole into its own buffer.
PIECE = 256 * 1024
POLL_SECONDS = 0.2
TAKE_ERROR_SECONDS = 5.0
# What the server's line numbers count, by format.
_COUNTED = {ARROW: "row", CSV: "line"}


class CopyStream:
    """The streams of partitions, one after another, into one table."""

    def __init__(self, spec: WorkerSpec) -> None:
        self._spec = spec
        self._columns: tuple[Column, ...] = ()

    def start(
        self, connection: Connection, table: sql.Composable, wait: Wait, *, freeze: bool = False
    ) -> None:
        """Begin the stream of another partition.

        Args:
            connection: the attempt's session, within its transaction.
            table: the table to load, quoted.
            wait: waits for the socket, within the stall timeout.
            freeze: write the rows as VACUUM FREEZE would leave them, into a table created in this
                transaction.
        """
        self._connection = connection
        self._table = table
        self._freeze = sql.SQL(", FREEZE" if freeze else "")
        self._encoder: Encoder | None = None
        self.sink: CopySink | None = None
        if self._spec.format != ARROW:
            self._start_copy(self._spec.format, wait)
            self.sink = CopySink(connection)

    def _start_copy(self, format_: str, wait: Wait) -> None:
        copy = statement("copy_in").format(
            table=self._table,
            columns=_columns(self._spec),
            format=copy_format(format_),
            freeze=self._freeze,
        )
        start_copy(self._connection, copy, "target", wait, ExecStatus.COPY_IN)

    def fileno(self) -> int:
        return self._connection.fileno()

    def write(self, block: Block, wait: Wait) -> None:
        if self._spec.format != ARROW:
            self._put(block, wait)
            return
        if self._encoder is None:
            self._encoder = self._started(block, wait)
        self._put(self._encoder.encode(block), wait)

    def _started(self, batch: Block, wait: Wait) -> Encoder:
        """Begin the stream with its first batch, whose types determine its format."""
        # Imported here: copies between PostgreSQL servers do not need Arrow, which may not be
        # installed.
        from penstock.backends.postgresql.arrow.encoder import Encoder  # noqa: PLC0415

        table = self._spec.target_table
        with translated("target"), wait.answering("target"):
            if not self._columns:
                self._columns = read_columns(self._connection, table, "target")
        names = [pair.target for pair in self._spec.pairs]
        encoder = Encoder(
            batch.schema,
            planned_columns(self._columns, names, "target", table),
            f"target: {table}",
            all_send=all(column.traits["all_send"] for column in self._columns),
        )
        with translated("target"):
            self._start_copy(encoder.format, wait)
        return encoder

    def _put(self, block: bytes | memoryview, wait: Wait) -> None:
        with self._translated():
            if len(block) <= PIECE:
                self._send(block, wait)
                return
            view = memoryview(block)
            for start in range(0, len(view), PIECE):
                self._send(view[start : start + PIECE], wait)

    def _translated(self) -> AbstractContextManager[None]:
        """Translate errors in the stream.

        If rows come from another system, they name the row or line, which the server counts.
        """
        return translated("target", rows=_COUNTED.get(self._spec.format, ""))

    def _send(self, piece: bytes | memoryview, wait: Wait) -> None:
        pgconn = self._connection.pgconn
        pgconn.put_copy_data(piece)
        while pgconn.flush():
            wait("target", pgconn.socket, True)
            if select.select([pgconn.socket], [], [], 0)[0]:
                self.check()

    def check(self) -> None:
        """Look for a message from the server in mid-stream: an error ends the stream early."""
        connection = self._connection
        with self._translated():
            refused = has_pending_error(connection)
            connection.pgconn.consume_input()
            if refused:
                self._take_error(connection)

    @staticmethod
    def _take_error(connection: Connection) -> None:
        """End the stream to obtain the error already received. Always raises."""
        pgconn = connection.pgconn
        pgconn.put_copy_end()
        deadline = time.monotonic() + TAKE_ERROR_SECONDS
        while (pgconn.flush() or pgconn.is_busy()) and time.monotonic() < deadline:
            select.select([pgconn.socket], [], [], POLL_SECONDS)
            pgconn.consume_input()
        result = None if pgconn.is_busy() else pgconn.get_result()
        if result is not None and result.status == ExecStatus.FATAL_ERROR:
            raise psycopg.errors.error_from_result(result)
        raise TransientError("target: the server ended the stream", Diagnosis(side="target"))

    def end(self, wait: Wait) -> int:
        if self._spec.format == ARROW:
            assert self._encoder is not None  # there is a first batch even if it has no rows
            self._put(self._encoder.finish(), wait)
        pgconn = self._connection.pgconn
        with self._translated():
            pgconn.put_copy_end()
            flush(pgconn, "target", wait)
            return end_copy(self._connection, "target", wait)


def _columns(spec: WorkerSpec) -> sql.Composable:
    """Return the column list in parentheses; empty for a table without columns."""
    if not spec.pairs:
        return sql.SQL("")
    return sql.SQL("({})").format(column_list(pair.target for pair in spec.pairs))
