"""COPY FROM STDIN, in one transaction with the commit record that makes the partition done."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import time
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import psycopg
from psycopg import sql
from psycopg.pq import ExecStatus

from penstock.backends.api.worker import ARROW, Block, Loaded, Wait
from penstock.backends.postgresql.attempt.older_sessions import (
    Guard,
    Holder,
    Older,
    progress_of_copy,
)
from penstock.backends.postgresql.attempt.replacing import Replaced
from penstock.backends.postgresql.attempt.staging import STAGE, Stage
from penstock.backends.postgresql.attempt.target_identity import check_target
from penstock.backends.postgresql.catalog.columns import read_columns
from penstock.backends.postgresql.connection import Connection, abandon, connect
from penstock.backends.postgresql.errors import load_lost, translated
from penstock.backends.postgresql.reader import end_copy, start_copy
from penstock.backends.postgresql.statements import column_list, copy_format, quoted, statement
from penstock.errors import Diagnosis, PermanentError, TransientError
from penstock.model.plans import Partition
from penstock.model.tables import Column
from penstock.spec.worker_spec import Patience, WorkerSpec

if TYPE_CHECKING:
    from penstock.backends.postgresql.arrow.writing import Encoder

# A larger row is handed to libpq in pieces: it would copy the whole of it into its own buffer.
PIECE = 256 * 1024
POLL_LOCK = 0.2
TAKE_ERROR_SECONDS = 5.0


class PostgresWriter:
    def __init__(self, spec: WorkerSpec) -> None:
        self._spec = spec
        self._connection: Connection | None = None
        self._stage: Stage | None = None
        self._replaced: Replaced | None = None
        self._copied_into: sql.Composable = sql.SQL("")
        self._columns: tuple[Column, ...] = ()
        self._encoder: Encoder | None = None
        self._record: dict[str, str | int] = {}
        schema = sql.Identifier(spec.control_schema)
        self._begin_record = statement("begin_record").format(schema=schema)
        self._complete_record = statement("complete_record").format(schema=schema)

    def turn(self, spec: WorkerSpec) -> None:
        self._spec = spec
        self._stage = None
        self._replaced = None
        self._columns = ()

    @property
    def _open(self) -> Connection:
        assert self._connection is not None
        return self._connection

    def fileno(self) -> int:
        return self._open.fileno()

    def begin(self, partition: Partition, attempt: int, wait: Wait) -> bool:
        self._record = {
            "run_id": self._spec.run_id,
            "generation": self._spec.generation,
            "partition_id": partition.id,
            "attempt": attempt,
            "volatile": self._spec.volatile,
            "series": self._spec.series,
            "read_at": self._spec.read_at,
        }
        name = f"penstock:{self._spec.run_id}:{partition.id}:{attempt}"
        if self._connection is None:
            with wait.answering("target"):
                self._connection = connect(self._spec.target, "target", name)
        connection = self._connection
        self._encoder = None
        with translated("target"):
            self._lock_partition(connection, partition, name, wait)
            # Who holds the run's row, and does nothing, was stopped while it started the run over.
            connection.guard = Guard(
                self._spec.run_id,
                Patience(self._spec.grace, 0),
                lambda: connect(self._spec.target, "target", "penstock:watch"),
            )
            with wait.answering("target"):
                inserted = connection.execute(self._begin_record, self._record).rowcount
                if not inserted:
                    self._check_run(connection)
                    if self._spec.series:
                        self._check_series(connection, partition)
                    connection.execute("ROLLBACK")
                    return False
                check_target(connection, self._spec.control_schema, self._spec.run_id)
            if self._spec.load_mode.deletes_by_partition:
                self._replaced = Replaced(self._spec, partition)
                self._replaced.delete(connection, wait)
            copied_into = quoted(self._spec.target_table)
            if self._spec.load_mode.merges_by_key:
                with wait.answering("target"):
                    if self._stage is None:
                        self._stage = Stage(connection, self._spec)
                    self._stage.create(connection)
                copied_into = STAGE
            self._copied_into = copied_into
            if self._spec.format != ARROW:
                self._start_copy(self._spec.format, wait)
        return True

    def _start_copy(self, format_: str, wait: Wait) -> None:
        copy = statement("copy_in").format(
            table=self._copied_into, columns=_columns(self._spec), format=copy_format(format_)
        )
        start_copy(self._open, copy, "target", wait, ExecStatus.COPY_IN)

    def _check_run(self, connection: Connection) -> None:
        found = connection.execute(
            sql.SQL("SELECT generation FROM {} WHERE run_id = %s").format(
                sql.Identifier(self._spec.control_schema, "run")
            ),
            [self._spec.run_id],
        ).fetchone()
        if found is None or found[0] != self._spec.generation:
            raise PermanentError(
                f"target: another process has started run {self._spec.run_id} over: expected "
                f"generation {self._spec.generation}, found {found[0] if found else 'no such run'}"
            )

        # A commit record of before the crash says nothing about the table.
        if self._spec.volatile and not self._is_marked(connection):
            raise load_lost(self._spec.run_id)

    def _check_series(self, connection: Connection, partition: Partition) -> None:
        """
        Raises:
            PermanentError: another run of the series has committed the partition.
        """
        found = connection.execute(
            sql.SQL(
                "SELECT run_id, committed_at::text FROM {} WHERE series = %s AND partition_id = %s"
            ).format(sql.Identifier(self._spec.control_schema, "commit_record")),
            [self._spec.series, partition.id],
        ).fetchone()
        if found is not None and found[0] != self._spec.run_id:
            raise PermanentError(
                f"target: partition {partition.id} was loaded already, by run {found[0]} at "
                f"{found[1]}: expected that no run of series {self._spec.series} has; loading it "
                "again would double its rows",
                Diagnosis(side="target"),
            )

    def _is_marked(self, connection: Connection) -> bool:
        query = sql.SQL("SELECT FROM {} WHERE run_id = %s").format(
            sql.Identifier(self._spec.control_schema, "volatile_run")
        )
        return connection.execute(query, [self._spec.run_id]).fetchone() is not None

    def _lock_partition(
        self, connection: Connection, partition: Partition, name: str, wait: Wait
    ) -> None:
        """Begin the transaction, and wait in it for an older attempt of the same partition.

        One that makes no progress for the grace time belongs to a worker that was stopped or cut
        off: its session is ended. It is known by this partition's lock and by its name, both.
        """
        key = {
            "partition": f"penstock:{self._spec.run_id}:{partition.id}",
            "lock_timeout": f"{round(self._spec.stall_timeout * 1000)}ms",
        }
        older = Older(self._spec.grace, f"attempt of partition {partition.id}")
        unexplained_since = time.monotonic()
        connection.guard = None
        while True:
            with wait.answering("target"):
                connection.begin()
                locked = connection.execute(
                    statement("lock_partition"), {**key, "application_name": name}
                ).fetchone()
                if locked is not None and locked[2]:
                    return
                connection.execute("ROLLBACK")
                holders = self._holders(connection, key["partition"])
            older.look(connection, holders)
            now = time.monotonic()
            if holders:
                unexplained_since = now
            elif now - unexplained_since > 3 * self._spec.grace + 1:
                raise TransientError(
                    f"target: partition {partition.id} is locked by a session that is none of its "
                    "attempts",
                    Diagnosis(side="target"),
                )
            time.sleep(POLL_LOCK)

    def _holders(self, connection: Connection, partition: str) -> list[Holder]:
        progress = progress_of_copy(connection.info.server_version)
        query = statement("lock_holders").format(progress=progress)
        rows = connection.execute(query, {"partition": partition, "prefix": f"{partition}:"})
        return [(pid, name, signs) for pid, name, signs in rows.fetchall()]

    def write(self, block: Block, wait: Wait) -> None:
        if self._spec.format != ARROW:
            self._put(block, wait)
            return
        if self._encoder is None:
            self._encoder = self._started(block, wait)
        self._put(self._encoder.encode(block), wait)

    def _started(self, batch: Block, wait: Wait) -> Encoder:
        """Begin the stream with its first batch, whose types decide its form."""
        # Imported here: between two servers nothing needs Arrow, and it may not be installed.
        from penstock.backends.postgresql.arrow.writing import Encoder  # noqa: PLC0415

        table = self._spec.target_table
        with translated("target"), wait.answering("target"):
            if not self._columns:
                self._columns = read_columns(self._open, table, "target")
        by_name = {column.name: column for column in self._columns}
        missing = [pair.target for pair in self._spec.pairs if pair.target not in by_name]
        if missing:
            raise PermanentError(
                f"target: {table}: expected the columns that the run was planned with; found no "
                f"{', '.join(map(repr, missing))}",
                Diagnosis(side="target"),
            )
        encoder = Encoder(
            batch.schema,
            [by_name[pair.target] for pair in self._spec.pairs],
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
        """Errors in the stream: of record batches they say the row, which the server counts."""
        return translated("target", rows=self._spec.format == ARROW)

    def _send(self, piece: bytes | memoryview, wait: Wait) -> None:
        pgconn = self._open.pgconn
        pgconn.put_copy_data(piece)
        while pgconn.flush():
            wait("target", pgconn.socket, True)
            pgconn.consume_input()

    def check(self) -> None:
        """Look at what the server says in mid-stream: an error ends the stream early.

        libpq does not look at an error while it sends (it would be found only at the end of the
        stream), so the socket is peeked at; under TLS that cannot be done.
        """
        connection = self._open
        with self._translated():
            refused = not connection.pgconn.ssl_in_use and _error_ahead(connection.fileno())
            connection.pgconn.consume_input()
            if refused:
                self._take_error(connection)

    @staticmethod
    def _take_error(connection: Connection) -> None:
        """End the stream to get at the error that is there already. Always raises."""
        pgconn = connection.pgconn
        pgconn.put_copy_end()
        deadline = time.monotonic() + TAKE_ERROR_SECONDS
        while (pgconn.flush() or pgconn.is_busy()) and time.monotonic() < deadline:
            select.select([pgconn.socket], [], [], POLL_LOCK)
            pgconn.consume_input()
        result = None if pgconn.is_busy() else pgconn.get_result()
        if result is not None and result.status == ExecStatus.FATAL_ERROR:
            raise psycopg.errors.error_from_result(result)
        raise TransientError("target: the server ended the stream", Diagnosis(side="target"))

    def end(self, wait: Wait) -> Loaded:
        connection = self._open
        if self._spec.format == ARROW:
            assert self._encoder is not None  # the first batch is there even if it has no rows
            self._put(self._encoder.finish(), wait)
        with self._translated():
            connection.pgconn.put_copy_end()
            while connection.pgconn.flush():
                wait("target", connection.fileno(), True)
                connection.pgconn.consume_input()
            rows = end_copy(connection, "target", wait)
            if self._stage:
                return self._stage.merge(connection, rows, wait)
            if self._replaced:
                self._replaced.leave_only(connection, rows, wait)
            return Loaded(rows)

    def commit(self, loaded: Loaded, bytes: int, wait: Wait) -> None:
        connection = self._open
        with translated("target"), wait.answering("target"):
            # Once more: the locks of the load keep the table as it is from here on.
            check_target(connection, self._spec.control_schema, self._spec.run_id)
            completed = connection.execute(
                self._complete_record,
                {
                    **self._record,
                    "rows": loaded.rows,
                    "bytes": bytes,
                    "inserted": loaded.inserted,
                    "updated": loaded.updated,
                },
            ).rowcount
            if completed != 1:
                raise PermanentError(
                    f"target: the commit record of partition {self._record['partition_id']} is "
                    f"gone: expected 1, found {completed}"
                )
            connection.execute("COMMIT")

    def abandon(self) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            abandon(connection)


def _columns(spec: WorkerSpec) -> sql.Composable:
    """In parentheses; a table without columns takes no such list."""
    if not spec.pairs:
        return sql.SQL("")
    return sql.SQL("({})").format(column_list(pair.target for pair in spec.pairs))


# An ErrorResponse is 'E', a length of 4 bytes, then its first field, 'S' for severity:
# https://www.postgresql.org/docs/current/protocol-message-formats.html
_ERROR_HEAD = 6


def _error_ahead(fd: int) -> bool:
    with contextlib.closing(socket.socket(fileno=os.dup(fd))) as peeker:
        try:
            head = peeker.recv(_ERROR_HEAD, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except OSError:
            return False
    return len(head) == _ERROR_HEAD and head[0] == ord("E") and head[5] == ord("S")
