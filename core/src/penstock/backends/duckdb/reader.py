"""A partition's rows as record batches, fetched by a thread that is one batch ahead."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from duckdb import DuckDBPyConnection

from penstock.backends.api.worker import Block, Wait
from penstock.backends.duckdb.catalog.queries import subselect
from penstock.backends.duckdb.catalog.values import travelling
from penstock.backends.duckdb.connection import connect_to_read
from penstock.backends.duckdb.dialect import condition, ident
from penstock.backends.duckdb.errors import translated
from penstock.backends.duckdb.load.infinite import first_infinite
from penstock.backends.duckdb.location import path_of
from penstock.backends.duckdb.session import DuckSession
from penstock.backends.duckdb.snapshot import check
from penstock.backends.shared.background import Ahead, computing
from penstock.backends.sql.dialect import Type
from penstock.errors import Diagnosis, PermanentError
from penstock.model.plans import Partition
from penstock.model.tables import ColumnPair, Query, TableRef
from penstock.spec.worker_spec import WorkerSpec

# One of DuckDB's vectors at a time: rows may be long, and larger batches gain nothing (measured).
BATCH_ROWS = 2048
BATCH_BYTES = 16 << 20


class DuckReader:
    def __init__(self, spec: WorkerSpec) -> None:
        self._spec = spec
        self._path = path_of(spec.source)
        self._connection: DuckDBPyConnection | None = None
        self._ahead: Ahead[pa.RecordBatch] | None = None
        self.rows = 0
        pa.set_cpu_count(1)

    def switch_run(self, spec: WorkerSpec) -> None:
        if spec.snapshot != self._spec.snapshot:
            self.abandon()
        self._spec = spec

    def label(self, application_name: str) -> None:
        """Nobody watches a file."""

    def read(self, partition: Partition, wait: Wait) -> Iterator[tuple[Block, int, int]]:
        connection = self._ready()
        self.rows = 0
        self._ahead = Ahead(lambda _: self._batches(connection, partition))
        with translated("source", f"partition {partition.id}"):
            for batch in self._ahead.take(computing(wait)):
                self.rows += batch.num_rows
                yield batch, batch.num_rows, batch.nbytes
                del batch
        if self._spec.snapshot is None:
            self.abandon()  # others may write to the file now

    def _ready(self) -> DuckDBPyConnection:
        if self._connection is None:
            connection = connect_to_read(self._path, "source", worker=True)
            self._connection = connection
            if self._path is not None and self._spec.snapshot is not None:
                check(self._path, self._spec.snapshot)
        return self._connection

    def _batches(
        self, connection: DuckDBPyConnection, partition: Partition
    ) -> Iterator[pa.RecordBatch]:
        """In a thread, one batch ahead."""
        query, types = self._query(connection, partition)
        passing = _Passing(self._spec.pairs, types, f"source: partition {partition.id}")
        with connection.sql(query).to_arrow_reader(BATCH_ROWS) as batches:
            for batch in batches:
                yield from pieces(passing.as_travels(batch))
            if not passing.rows:
                yield passing.as_travels(pa.RecordBatch.from_pylist([], schema=batches.schema))

    def _query(
        self, connection: DuckDBPyConnection, partition: Partition
    ) -> tuple[str, list[Type]]:
        """The statement that reads the run's columns, and their types."""
        spec, session = self._spec, DuckSession(connection, "source")
        if isinstance(spec.relation, Query):
            rows = subselect(spec.relation.text)
        else:
            assert isinstance(spec.relation, TableRef)
            rows = session.table(spec.relation)
        known = dict(session.describe(f"SELECT * FROM {rows}", f"partition {partition.id}"))
        types = [known[pair.source] for pair in spec.pairs]
        listed = ", ".join(
            f"{travelling(ident(pair.source), type_)} AS {ident(pair.target)}"
            for pair, type_ in zip(spec.pairs, types, strict=True)
        )
        chosen = condition(spec.where, partition.extent)
        return f"SELECT {listed or '1'} FROM {rows} WHERE {chosen}", types

    def abandon(self) -> None:
        """Leaves nothing open: whoever opens a database again, in the same process, while anything
        of a closed session of it is left, waits within DuckDB for that to go (measured)."""
        ahead, self._ahead = self._ahead, None
        connection, self._connection = self._connection, None
        if connection is not None:
            if ahead is not None:
                ahead.leave(connection.interrupt)
            connection.close()


class _Passing:
    """Batches as they are handed on: a UUID as Arrow's own, and no infinite dates.

    Parameters:
        subject: for errors.
    """

    def __init__(self, pairs: tuple[ColumnPair, ...], types: list[Type], subject: str) -> None:
        self._pairs = pairs
        self._types = types
        self._subject = subject
        self.rows = 0
        """How many have passed."""

    def as_travels(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = [
            self._column(array, pair, type_)
            for array, pair, type_ in zip(batch.columns, self._pairs, self._types, strict=False)
        ]
        self.rows += batch.num_rows
        if not columns:
            return batch
        return pa.RecordBatch.from_arrays(columns, [pair.target for pair in self._pairs])

    def _column(self, array: pa.Array, pair: ColumnPair, type_: Type) -> pa.Array:
        if type_.id == "uuid":
            stored = array.cast(pa.binary(16))
            return pa.ExtensionArray.from_storage(pa.uuid(), stored)
        infinite = first_infinite(array)
        if infinite is not None:
            (row, found), column = infinite, pair.source
            raise PermanentError(
                f"{self._subject}: column {column!r}, row {self.rows + row + 1:,}: expected a "
                f"finite {found.kind}, found {found}, which record batches cannot carry; leave it "
                f"out with --where, or use --query with CASE WHEN isfinite({column}) "
                f"THEN {column} END",
                Diagnosis(side="source"),
            )
        return array


def pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The batch in parts that are not too large."""
    parts = max(1, -(-batch.nbytes // BATCH_BYTES))
    rows = max(1, -(-batch.num_rows // parts))
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)
