"""COPY TO STDOUT: rows leave the source in the server's own binary form, undecoded."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
from psycopg import sql
from psycopg.pq import ExecStatus

from penstock.backends.base import Block, Wait
from penstock.backends.postgresql.connection import Connection, abandon, connect
from penstock.backends.postgresql.errors import translated
from penstock.backends.postgresql.predicate import select, tables_of
from penstock.backends.postgresql.snapshot import import_snapshot, join_locks
from penstock.backends.postgresql.statements import copy_format, selected, statement
from penstock.model import Partition, Relation
from penstock.spec import WorkerSpec

# One message a row comes in; gathered, they cost one call a write. Larger gains nothing (measured).
GATHER = 128 * 1024


class PostgresReader:
    def __init__(self, spec: WorkerSpec) -> None:
        self._spec = spec
        self._connection: Connection | None = None
        self._locked: set[Relation] = set()
        self._application_name = f"penstock:{spec.run_id}"
        self.rows = 0

    def turn(self, spec: WorkerSpec) -> None:
        if spec.snapshot != self._spec.snapshot:
            self.abandon()
        self._spec = spec

    def label(self, application_name: str) -> None:
        self._application_name = application_name

    def read(self, partition: Partition, wait: Wait) -> Iterator[tuple[Block, int, int]]:
        with wait.answering("source"):
            connection = self._ready(partition)
        query = statement("copy_out").format(
            rows=select(
                self._spec.relation,
                partition.extent,
                self._spec.where,
                selected(self._spec.pairs),
            ),
            format=copy_format(self._spec.format),
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
                yield block, count, len(block)
                del block
                if length < 0:
                    break
            self.rows = end_copy(connection, "source", wait)
            if self._spec.snapshot is None:
                with wait.answering("source"):
                    connection.execute("COMMIT")

    def _ready(self, partition: Partition) -> Connection:
        """Connected, in a transaction, and labelled in it.

        One that sees the run's snapshot stays open for the worker's life: it is imported once.
        """
        snapshot = self._spec.snapshot
        if self._connection is None:
            self._connection = connect(self._spec.source, "source", self._application_name)
            if snapshot is not None:
                import_snapshot(self._connection, snapshot)
        connection = self._connection
        with translated("source"):
            if snapshot is None:
                connection.begin()
            connection.execute(
                "SELECT pg_catalog.set_config('application_name', %s, true)",
                [self._application_name],
            )
        if snapshot is not None:
            tables = tables_of(self._spec.relation, partition.extent)
            with translated("source"):
                join_locks(connection, [table for table in tables if table not in self._locked])
            self._locked.update(tables)
        return connection

    def abandon(self) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            self._locked = set()
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
