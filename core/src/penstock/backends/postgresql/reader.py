"""COPY TO STDOUT: rows leave the source in the server's own binary form, undecoded."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
from psycopg import sql
from psycopg.pq import ExecStatus

from penstock.backends.base import Block, Wait
from penstock.backends.postgresql.connection import Connection, abandon, connect
from penstock.backends.postgresql.errors import translated
from penstock.backends.postgresql.predicate import condition
from penstock.backends.postgresql.snapshot import import_snapshot, join_lock
from penstock.backends.postgresql.statements import column_list, quoted, statement
from penstock.model import Partition
from penstock.spec import WorkerSpec

BINARY = "postgresql-binary"
# One message a row comes in; gathered, they cost one call a write. Larger gains nothing (measured).
GATHER = 128 * 1024


class PostgresReader:
    formats: tuple[str, ...] = (BINARY,)

    def __init__(self, spec: WorkerSpec) -> None:
        self._spec = spec
        self._connection: Connection | None = None
        self._application_name = f"penstock:{spec.run_id}"
        self.rows = 0

    def label(self, application_name: str) -> None:
        self._application_name = application_name

    def read(self, partition: Partition, format: str, wait: Wait) -> Iterator[tuple[Block, int]]:
        with wait.answering("source"):
            connection = self._ready()
        query = statement("copy_out").format(
            columns=column_list(self._spec.columns),
            table=quoted(self._spec.table),
            condition=condition(self._spec.where, partition.extent),
        )
        pgconn, socket = connection.pgconn, connection.fileno()
        with translated("source"):
            start_copy(connection, query, "source", wait, ExecStatus.COPY_OUT)
            get = pgconn.get_copy_data
            gathered: list[memoryview] = []
            size = 0
            while True:
                length, data = get(1)
                if length > 0:
                    gathered.append(data)
                    size += length
                    if size < GATHER:
                        continue
                elif length == 0:
                    wait("source", socket, False)
                    pgconn.consume_input()
                    continue
                elif not gathered:
                    break
                # One large row is handed on as it is: joining would copy it. Nothing of it is
                # kept here meanwhile.
                count = len(gathered)
                block = gathered[0] if count == 1 else b"".join(gathered)
                gathered = []
                size = 0
                del data
                yield block, count
                del block
                if length < 0:
                    break
            self.rows = end_copy(connection, "source", wait)

    def _ready(self) -> Connection:
        """Connected, labelled and, where the run has a snapshot, in a transaction that sees it.

        That transaction stays open for the worker's life: the snapshot is imported once.
        """
        if self._connection is None:
            connection = connect(self._spec.source, "source", self._application_name)
            self._connection = connection
            if self._spec.snapshot is not None:
                import_snapshot(connection, self._spec.snapshot)
                with translated("source"):
                    join_lock(connection, self._spec.table)
        else:
            connection = self._connection
            with translated("source"):
                connection.execute(
                    "SELECT pg_catalog.set_config('application_name', %s, false)",
                    [self._application_name],
                )
        return connection

    def abandon(self) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            abandon(connection)


def start_copy(
    connection: Connection, query: sql.Composed, side: str, wait: Wait, expected: ExecStatus
) -> None:
    """Send a COPY and come back when the server is ready to stream."""
    pgconn = connection.pgconn
    pgconn.send_query_params(query.as_bytes(connection), None)
    while pgconn.flush():
        wait(side, pgconn.socket, True)
        pgconn.consume_input()
    while pgconn.is_busy():
        wait(side, pgconn.socket, False)
        pgconn.consume_input()
    result = pgconn.get_result()
    assert result is not None
    if result.status != expected:
        raise psycopg.errors.error_from_result(result)


def end_copy(connection: Connection, side: str, wait: Wait) -> int:
    """Wait for the end of a COPY. Returns the rows that the server counted."""
    pgconn = connection.pgconn
    rows: int | None = None
    while True:
        while pgconn.is_busy():
            wait(side, pgconn.socket, False)
            pgconn.consume_input()
        result = pgconn.get_result()
        if result is None:
            break
        if result.status != ExecStatus.COMMAND_OK:
            raise psycopg.errors.error_from_result(result)
        rows = result.command_tuples
    if rows is None:
        raise psycopg.OperationalError("the server ended COPY without a count")
    return rows
