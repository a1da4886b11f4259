"""A partition's rows as record batches, over a session kept for many partitions."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

from penstock.backends.api.worker import Block, Wait
from penstock.backends.mysql.catalog.partitions import rows_of_extent
from penstock.backends.mysql.connection import connect, kill
from penstock.backends.mysql.dialect import MYSQL
from penstock.backends.mysql.errors import translated
from penstock.backends.mysql.location import URLS
from penstock.backends.mysql.session import MySqlSession
from penstock.backends.mysql.snapshot import leave, take
from penstock.backends.mysql.stream.decoding import RowDecoder
from penstock.backends.mysql.stream.rows import NO_ROWS, read_rows
from penstock.backends.mysql.types import TYPES, MyType
from penstock.backends.sql.rows.computed_columns import computed_rows
from penstock.backends.sql.rows.conditions import condition
from penstock.errors import PenstockError
from penstock.model.plans import Partition
from penstock.spec.worker_spec import WorkerSpec

# Seconds that the end of an attempt waits for the server to end a query.
KILL_SECONDS = 2


class MySqlReader:
    """See `Reader`."""

    def __init__(self, spec: WorkerSpec) -> None:
        self._spec = spec
        self._session: MySqlSession | None = None
        self._columns: list[tuple[str, MyType]] = []
        self._label = ""
        self._busy = False
        self.rows = 0

    def switch_run(self, spec: WorkerSpec) -> None:
        if spec.snapshot != self._spec.snapshot:
            self.abandon()
        self._spec = spec
        self._columns = []

    def label(self, application_name: str) -> None:
        # The server's process list shows what sessions run.
        self._label = application_name.replace("*", "")

    def read(self, partition: Partition, wait: Wait) -> Iterator[tuple[Block, int, int]]:
        spec, subject = self._spec, f"partition {partition.id}"
        with wait.answering("source"), translated("source"):
            session = self._connected()
            session.hold(spec.session_values)
            table = rows_of_extent(session.rows_of(spec.relation), partition.extent)
            tested = condition(MYSQL, spec.where, partition.extent)
            table, tested = computed_rows(MYSQL, table, tested, spec.pairs)
            names = [MYSQL.ident(pair.source) for pair in spec.pairs]
            if not self._columns:
                query = f"SELECT {', '.join(names)} FROM {table}"
                self._columns = session.describe(query, subject)
        decoder = RowDecoder(
            self._columns,
            [pair.target for pair in spec.pairs],
            f"source: {spec.relation}, {subject}",
            URLS.parse(spec.source).options,
        )
        types = [type_ for _, type_ in self._columns]
        query = (
            f"/* {self._label} */ SELECT {', '.join(map(TYPES.travelling, names, types))}"
            f" FROM {table} WHERE {tested}"
        )
        self.rows, self._busy = 0, True
        with translated("source"):
            for rows in read_rows(session.connection, query, wait):
                batch, count = decoder.decode(rows), len(rows.starts)
                del rows
                self.rows += count
                yield batch, count, batch.nbytes
                del batch
        self._busy = False
        if not self.rows:
            yield decoder.decode(NO_ROWS), 0, 0

    def _connected(self) -> MySqlSession:
        """Return a session.

        One with the run's snapshot stays open for the worker's lifetime, since there are few.
        """
        if self._session is None:
            snapshot, source = self._spec.snapshot, self._spec.source
            connection = take(snapshot) if snapshot else connect(source, "source")
            self._session = MySqlSession(connection, MYSQL)
            if not snapshot:
                connection.change("SET SESSION TRANSACTION READ ONLY")
        return self._session

    def abandon(self) -> None:
        session, self._session = self._session, None
        busy, self._busy = self._busy, False
        if session is None:
            return
        if not busy:
            leave(session.connection)
            return
        number = session.connection.number
        session.connection.abandon()
        # Otherwise the server continues until it has something to send.
        ending = threading.Thread(target=_kill, args=(self._spec.source, number), daemon=True)
        ending.start()
        ending.join(KILL_SECONDS)


def _kill(url: str, number: int) -> None:
    with contextlib.suppress(PenstockError):
        kill(url, "source", number)


open_reader = MySqlReader
