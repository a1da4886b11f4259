"""COPY TO STDOUT: rows leave the source in the server's own binary form, without being decoded.

For an unlike target they leave as text lines that it loads unchanged, or as CSV that is converted
to record batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from psycopg import sql
from psycopg.pq import ExecStatus

from penstock.backends.api.worker import ARROW, LINES, ROWS, SHARED_FORMATS, Block, Wait
from penstock.backends.postgresql.catalog.columns import planned_columns, read_columns
from penstock.backends.postgresql.catalog.queries import described_columns, described_query
from penstock.backends.postgresql.compare.conditions import select, tables_of
from penstock.backends.postgresql.connection import Connection, abandon, connect
from penstock.backends.postgresql.errors import translated
from penstock.backends.postgresql.native import (
    CopySink,
    NativeMover,
    available,
    is_plain,
    lines,
    pump,
)
from penstock.backends.postgresql.session.cancellable import await_copy, end_copy, send
from penstock.backends.postgresql.session.masking import secret_statements
from penstock.backends.postgresql.session.source_casts import with_place
from penstock.backends.postgresql.session.statements import (
    copy_format,
    named_columns,
    select_list,
    statement,
)
from penstock.backends.postgresql.snapshot.importing import import_locked, import_snapshot
from penstock.backends.postgresql.snapshot.locks import join_locks
from penstock.backends.shared.opening import ConnectionOpening
from penstock.errors import PermanentError
from penstock.model.plans import Partition
from penstock.model.tables import Column, Query, Relation, TableRef
from penstock.spec.worker_spec import WorkerSpec

if TYPE_CHECKING:
    from penstock.backends.api.worker import Pump
    from penstock.backends.postgresql.arrow.csv_rows import CsvRows
    from penstock.backends.postgresql.arrow.decoder import Decoder
    from penstock.backends.postgresql.arrow.lines import Lines
    from penstock.backends.postgresql.arrow.wire import Wire
    from penstock.backends.postgresql.session.shared_round_trips import Question

# Each row arrives as one message; gathering them saves write calls. Larger blocks gain nothing
# (measured).
GATHER = 128 * 1024
# Per block, at most.
MOST_ROWS = 1 << 16
# Tables that a session may have locked before it makes way for another one.
MOST_LOCKED = 200


class PostgresReader:
    """See `Reader`."""

    def __init__(self, spec: WorkerSpec) -> None:
        self._spec = spec
        self._connection: Connection | None = None
        self._opening: ConnectionOpening[_OpenSession] | None = None
        self._locked: set[Relation] = set()
        self._application_name = f"penstock:{spec.run_id}"
        self._session_name = ""
        """The session's name in the server's monitoring."""
        self._secrets_set: set[str] = set()
        """Names of secret texts that the session has."""
        self._commits = False
        self._columns: list[Column] = []
        self._partition: Partition | None = None
        """The partition that is being read."""
        self.rows = 0

    def switch_run(self, spec: WorkerSpec) -> None:
        if spec.snapshot != self._spec.snapshot:
            self.abandon()
        self._spec = spec
        self._columns = []

    def label(self, application_name: str) -> None:
        self._application_name = application_name

    def read(self, partition: Partition, wait: Wait) -> Iterator[tuple[Block, int, int]]:
        with wait.answering("source"):
            connection = self._ready_connection(partition)
            if self._spec.format in SHARED_FORMATS:
                self._columns = self._columns or self._read_columns(connection)
        if self._spec.format == ROWS:
            return self._gather_rows(connection, partition, wait)
        if self._spec.format in SHARED_FORMATS and available():
            if self._spec.format == ARROW:
                return self._decode_batches(connection, partition, wait)
            return self._gather_lines(connection, partition, wait)
        return self._gather_blocks(connection, partition, wait)

    def _gather_blocks(
        self, connection: Connection, partition: Partition, wait: Wait
    ) -> Iterator[tuple[Block, int, int]]:
        """Yield blocks in the server's own format, or converted in this process."""
        form = self._form(partition)
        self._start(connection, partition, wait, form)
        empty = True
        for block, count in self._blocks(connection, wait, form.block_bytes if form else GATHER):
            # Keep no reference to a large row while the target takes it.
            if form:
                batch = form.decode(block)
                del block
                yield batch, count, batch.nbytes
                del batch
            else:
                yield block, count, len(block)
                del block
            empty = False
        self._finish(connection, wait)
        if form and empty:
            yield form.decode(b""), 0, 0

    def _decode_batches(
        self, connection: Connection, partition: Partition, wait: Wait
    ) -> Iterator[tuple[Block, int, int]]:
        """Yield record batches, decoded outside the interpreter."""
        # Imported here: copies between PostgreSQL servers do not need Arrow, which may not be
        # installed.
        from penstock.backends.postgresql.arrow.wire import Wire  # noqa: PLC0415

        wire = Wire(self._columns, self._spec.pairs, self._subject(partition))
        unanswered = self._start(connection, partition, wait, wire, native=True)
        decoder = wire.decoder(connection, unanswered)
        mover = NativeMover(decoder, (connection,), refusal=wire.refusal)
        more = empty = True
        while more:
            while wait.turn(mover):
                pass
            rows, _, arrays = decoder.take()
            more = not decoder.ended
            if rows or (empty and not more):
                batch = wire.batch(arrays)
                del arrays
                yield batch, rows, batch.nbytes
                del batch
                empty = False
        self._finish(connection, wait)

    def _gather_lines(
        self, connection: Connection, partition: Partition, wait: Wait
    ) -> Iterator[tuple[Block, int, int]]:
        """Yield blocks of lines, gathered outside the interpreter."""
        # Imported here: see `_decode_batches`.
        from penstock.backends.postgresql.arrow.lines import Lines  # noqa: PLC0415

        form = Lines(self._columns, native=True)
        unanswered = self._start(connection, partition, wait, form, native=True)
        gathered = lines(connection, unanswered, verbatim=False, trimmed=form.trimmed)
        for block, rows in _native_blocks(connection, wait, gathered):
            yield block, rows, len(block)
            del block
        self._finish(connection, wait)

    def _gather_rows(
        self, connection: Connection, partition: Partition, wait: Wait
    ) -> Iterator[tuple[Block, int, int]]:
        """Yield blocks of CSV, gathered outside the interpreter if possible."""
        # Imported here: see `_decode_batches`.
        from penstock.backends.postgresql.arrow.csv_rows import CsvRows  # noqa: PLC0415

        form, native = CsvRows(self._columns, self._subject(partition)), available()
        unanswered = self._start(connection, partition, wait, form, native=native)
        blocks: Iterator[tuple[bytes | memoryview, int]]
        if native:
            gathered = lines(connection, unanswered, verbatim=True)
            blocks = _native_blocks(connection, wait, gathered)
        else:
            blocks = self._blocks(connection, wait, GATHER)
        for block, rows in blocks:
            yield form.block(block, rows), rows, len(block)
            del block
        self._finish(connection, wait)

    def pump(self, partition: Partition, sink: object, wait: Wait) -> Pump | None:
        if not isinstance(sink, CopySink) or self._spec.format in SHARED_FORMATS:
            return None
        if not available():
            return None
        with wait.answering("source"):
            connection = self._ready_connection(partition)
        unanswered = self._start(connection, partition, wait, None, native=True)
        ends = (connection, sink.connection)
        return NativeMover(
            pump(*ends, unanswered), ends, finish=lambda: self._finish(connection, wait)
        )

    def _start(
        self,
        connection: Connection,
        partition: Partition,
        wait: Wait,
        form: CsvRows | Decoder | Lines | Wire | None,
        *,
        native: bool = False,
    ) -> bool:
        """Begin the COPY of a partition, in the server's own format or another.

        Args:
            connection: the session to read from.
            partition: the partition.
            wait: waits for the socket, within the stall timeout.
            form: the conversion of the stream; None for the server's own format.
            native: whether the stream is read outside the interpreter.

        Returns:
            Whether the server's response is left to the reader of the stream.
        """
        self._partition = partition
        query = statement("copy_out").format(
            rows=self._rows(partition, form.select_list if form else select_list(self._spec.pairs)),
            format=form.copy_options if form else copy_format(self._spec.format),
        )
        with self._translated():
            unread = send(connection, query, "source", wait)
            if native and unread and is_plain(connection):
                return True
            await_copy(connection, "source", wait, ExecStatus.COPY_OUT)
        return False

    def _rows(self, partition: Partition, listed: sql.Composable) -> sql.Composable:
        """Return the rows of a partition.

        Args:
            partition: the partition.
            listed: a select list of the pairs' columns.
        """
        spec = self._spec
        computes = any(pair.expression for pair in spec.pairs)
        columns = named_columns(spec.pairs) if computes else listed
        rows = select(spec.relation, partition.extent, spec.where, columns)
        if not computes:
            return rows
        return sql.SQL("SELECT {} FROM ({}) AS computed").format(listed, rows)

    def _finish(self, connection: Connection, wait: Wait) -> None:
        """Receive the server's messages at the end of a stream."""
        with self._translated():
            self.rows = end_copy(connection, "source", wait)
            if self._commits:
                with wait.answering("source"):
                    connection.execute("COMMIT")

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Translate errors of the COPY; those of a cast by the source get the column and row."""
        try:
            with translated("source"):
                yield
        except PermanentError as error:
            partition, spec = self._partition, self._spec
            if partition is None:
                raise
            raise with_place(
                error,
                spec.pairs,
                lambda: connect(spec.source, "source", self._application_name),
                lambda listed: self._rows(partition, listed),
            ) from error

    def _blocks(
        self, connection: Connection, wait: Wait, least: int
    ) -> Iterator[tuple[bytes | memoryview, int]]:
        """Yield the stream in blocks of whole rows, each with its number of rows.

        Args:
            connection: the session with the running COPY.
            wait: waits for the socket, within the stall timeout.
            least: the minimum size of a block in bytes, except the last.
        """
        pgconn, socket = connection.pgconn, connection.fileno()
        get = pgconn.get_copy_data
        gathered: list[memoryview] = []
        size = 0
        with self._translated():
            while True:
                length, data = get(1)
                if length > 0:
                    gathered.append(data)
                    size += length
                    if size < least and len(gathered) < MOST_ROWS:
                        continue
                elif length == 0:
                    wait("source", socket, False)
                    pgconn.consume_input()
                    continue
                elif not gathered:
                    break
                # Hand on a single large row as it is: joining would copy it. Keep no reference to
                # it.
                count = len(gathered)
                block = gathered[0] if count == 1 else b"".join(gathered)
                gathered = []
                size = 0
                del data
                yield block, count
                del block
                if length < 0:
                    break

    def _form(self, partition: Partition) -> Decoder | Lines | None:
        """Return the conversion of the stream for another system; None if rows leave unchanged."""
        if self._spec.format not in SHARED_FORMATS:
            return None
        # Imported here: see `_decode_batches`.
        from penstock.backends.postgresql.arrow.decoder import Decoder  # noqa: PLC0415
        from penstock.backends.postgresql.arrow.lines import Lines  # noqa: PLC0415

        if self._spec.format == LINES:
            return Lines(self._columns)
        return Decoder(self._columns, self._spec.pairs, self._subject(partition))

    def _subject(self, partition: Partition) -> str:
        """Return the name of the table or query for error messages."""
        return f"source: {self._spec.relation}, partition {partition.id}"

    def _read_columns(self, connection: Connection) -> list[Column]:
        relation, pairs = self._spec.relation, self._spec.pairs
        with translated("source"):
            if any(pair.expression for pair in pairs):
                columns = described_columns(connection, relation, pairs)
            elif isinstance(relation, Query):
                columns = described_query(connection, relation)
            else:
                assert isinstance(relation, TableRef)
                columns = read_columns(connection, relation, "source")
        names = [pair.source for pair in pairs]
        return planned_columns(columns, names, "source", relation)

    def connect_ahead(self, partition: Partition) -> None:
        if self._opening is not None:
            return
        if len(self._locked) >= MOST_LOCKED:
            self.abandon()  # the server's room for locks is limited
        tables = self._unlocked_tables(partition)
        if self._connection is None:
            self._session_name = self._application_name
            opened = partial(_open_session, self._spec, self._session_name, tables)
        elif self._spec.snapshot is not None and (naming := self._name_statements()):
            opened = partial(
                _prepare_session, self._connection, naming, tables, self._spec.stall_timeout
            )
        else:
            return
        self._opening = ConnectionOpening(opened, lambda opened: abandon(opened.connection))

    def _connect(self, partition: Partition) -> Connection:
        if self._connection is None:
            self.connect_ahead(partition)
        if self._opening is not None:
            opened = self._opening.take()
            self._connection, self._opening = opened.connection, None
            self._locked.update(opened.locked)
        assert self._connection is not None
        return self._connection

    def _unlocked_tables(self, partition: Partition) -> Sequence[Relation]:
        """Return tables to be read with the snapshot that this session has not locked yet."""
        if self._spec.snapshot is None:
            return ()
        tables = tables_of(self._spec.relation, partition.extent)
        return [table for table in tables if table not in self._locked]

    def _name_statements(self) -> Sequence[Question]:
        """Return statements that set the session's name and secrets; empty if they are set."""
        local = self._commits or self._spec.snapshot is not None
        values = self._spec.session_values
        new = {
            name: values[name] for name in values if name not in self._secrets_set or self._commits
        }
        self._secrets_set.update(new)
        secrets = secret_statements(new, local=local) if new else []
        if self._session_name == self._application_name and not self._commits:
            return secrets
        self._session_name = self._application_name
        query = "SELECT pg_catalog.set_config('application_name', %s, %s)"
        return [(query, [self._session_name, local]), *secrets]

    def _ready_connection(self, partition: Partition) -> Connection:
        """Return a connection in the transaction that reads the partition, with its name set.

        A connection with the run's snapshot stays open for the worker's lifetime, so that the
        snapshot is imported once. Without a snapshot, a single COPY needs no transaction.
        """
        connection = self._connect(partition)
        alone = self._spec.format not in SHARED_FORMATS and not connection.pooled
        self._commits = self._spec.snapshot is None and not alone
        naming, tables = self._name_statements(), self._unlocked_tables(partition)
        if tables:
            join_locks(connection, tables, self._spec.stall_timeout, naming)
            self._locked.update(tables)
        elif naming:
            with translated("source"), connection.together(begin=self._commits):
                for statement in naming:
                    connection.execute(*statement)
        return connection

    def abandon(self) -> None:
        if self._opening is not None:
            opening, self._opening = self._opening, None
            opening.leave()
        if self._connection is not None:
            connection, self._connection = self._connection, None
            self._locked = set()
            self._secrets_set = set()
            abandon(connection)


def _native_blocks(
    connection: Connection, wait: Wait, gathered: Any
) -> Iterator[tuple[bytes | memoryview, int]]:
    """Yield the blocks of a stream that is gathered outside the interpreter; see `native.lines`."""
    mover = NativeMover(gathered, (connection,))
    while not gathered.ended:
        while wait.turn(mover):
            pass
        rows, block = gathered.take()
        if rows:
            yield memoryview(block), rows
        del block


class _OpenSession(NamedTuple):
    """A session ready to be read from, and the tables it has locked."""

    connection: Connection
    locked: Sequence[Relation]


def _open_session(
    spec: WorkerSpec, application_name: str, tables: Sequence[Relation]
) -> _OpenSession:
    """Open a session, with the run's snapshot if there is one."""
    if spec.snapshot is None:
        return _OpenSession(connect(spec.source, "source", application_name, users_path=True), ())
    connection = connect(spec.source, "source", application_name, set_up=False, users_path=True)
    try:
        with translated("source"):
            oids = import_locked(connection, spec.snapshot, tables, spec.stall_timeout)
        if oids is None:
            import_snapshot(connection, spec.snapshot)
    except BaseException:
        connection.close()
        raise
    return _OpenSession(connection, tables if oids is not None else ())


def _prepare_session(
    connection: Connection, naming: Sequence[Question], tables: Sequence[Relation], seconds: float
) -> _OpenSession:
    """Add the locks and the name for another partition to an open session."""
    if tables:
        join_locks(connection, tables, seconds, naming)
    else:
        with translated("source"), connection.together():
            for statement in naming:
                connection.execute(*statement)
    return _OpenSession(connection, tables)
