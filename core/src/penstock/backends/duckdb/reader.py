"""A partition's rows as record batches, fetched by a thread that is one batch ahead."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
from duckdb import DuckDBPyConnection

from penstock.backends.api.worker import Block, Wait
from penstock.backends.duckdb.catalog.queries import subselect
from penstock.backends.duckdb.catalog.values import travelling
from penstock.backends.duckdb.connection import (
    catalog_name,
    connect_to_read,
    full_name,
    interrupting,
)
from penstock.backends.duckdb.dialect import condition, ident
from penstock.backends.duckdb.errors import translated
from penstock.backends.duckdb.load.infinite import Infinite, check_finite
from penstock.backends.duckdb.location import path_of
from penstock.backends.duckdb.snapshot import check
from penstock.backends.shared.arrow import first_failing, own
from penstock.backends.shared.background import Call, compute
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
        self._stream: _Stream | None = None
        self.rows = 0
        pa.set_cpu_count(1)

    def turn(self, spec: WorkerSpec) -> None:
        if spec.snapshot != self._spec.snapshot:
            self.abandon()
        self._spec = spec

    def label(self, application_name: str) -> None:
        """Nobody watches a file."""

    def read(self, partition: Partition, wait: Wait) -> Iterator[tuple[Block, int, int]]:
        connection = self._ready()
        interrupt = interrupting(connection)
        self.rows = 0
        with translated("source", f"partition {partition.id}"):
            query, types = self._query(connection, partition)
            batches = compute(lambda: _begin(connection, query), "source", wait, interrupt)
            stream = _Stream(batches, self._spec.pairs, types, f"source: partition {partition.id}")
            self._stream = stream
            empty = True
            while (batch := stream.take(wait, interrupt)) is not None:
                empty = False
                self.rows += batch.num_rows
                for piece in pieces(batch):
                    yield piece, piece.num_rows, piece.nbytes
            if empty:
                yield stream.nothing(), 0, 0
            stream.close(interrupt)
        if self._spec.snapshot is None:
            self.abandon()  # others may write to the file now

    def _ready(self) -> DuckDBPyConnection:
        if self._connection is None:
            connection = connect_to_read(self._path, "source", worker=True)
            self._connection = connection
            if self._path is not None and self._spec.snapshot is not None:
                check(self._path, self._spec.snapshot)
        return self._connection

    def _query(
        self, connection: DuckDBPyConnection, partition: Partition
    ) -> tuple[str, list[Type]]:
        relation = self._spec.relation
        if isinstance(relation, Query):
            rows = subselect(relation.text)
        else:
            assert isinstance(relation, TableRef)
            rows = full_name(catalog_name(connection, "source"), relation)
        return select(connection, rows, condition(self._spec.where, partition.extent), self._spec)

    def abandon(self) -> None:
        """Leaves nothing open: whoever opens a database again, in the same process, while anything
        of a closed session of it is left, waits within DuckDB for that to go (measured)."""
        stream, self._stream = self._stream, None
        connection, self._connection = self._connection, None
        if connection is not None:
            interrupt = interrupting(connection)
            interrupt()
            if stream is not None:
                stream.close(interrupt)
            connection.close()


def select(
    connection: DuckDBPyConnection, rows: str, chosen: str, spec: WorkerSpec
) -> tuple[str, list[Type]]:
    """The statement that reads the run's columns, and their types."""
    found = connection.sql(f"SELECT * FROM {rows}")
    known = dict(zip(found.columns, found.types, strict=True))
    types = [known[pair.source] for pair in spec.pairs]
    listed = ", ".join(
        f"{travelling(ident(pair.source), type_)} AS {ident(pair.target)}"
        for pair, type_ in zip(spec.pairs, types, strict=True)
    )
    return f"SELECT {listed or '1'} FROM {rows} WHERE {chosen}", types


def _begin(connection: DuckDBPyConnection, query: str) -> pa.RecordBatchReader:
    return connection.sql(query).to_arrow_reader(BATCH_ROWS)


class _Stream:
    """Batches as they are handed on: a UUID as Arrow's own, and no infinite dates. A thread is one
    batch ahead.

    Parameters:
        subject: for errors.
    """

    def __init__(
        self,
        batches: pa.RecordBatchReader,
        pairs: tuple[ColumnPair, ...],
        types: list[Type],
        subject: str,
    ) -> None:
        self._batches = batches
        self._pairs = pairs
        self._types = types
        self._subject = subject
        self._passed = 0
        self._ahead = Call(self._next)

    def take(self, wait: Wait, interrupt: Callable[[], object]) -> pa.RecordBatch | None:
        """Another batch with rows; None at the end."""
        batch = self._ahead.result("source", wait, interrupt)
        if batch is not None:
            self._ahead = Call(self._next)
        return batch

    def close(self, interrupt: Callable[[], object]) -> None:
        """End it. May be called twice."""
        if self._ahead.leave(interrupt):
            self._batches.close()

    def _next(self) -> pa.RecordBatch | None:
        while True:
            try:
                batch = self._batches.read_next_batch()
            except StopIteration:
                return None
            if batch.num_rows:
                return self._as_travels(batch)

    def nothing(self) -> pa.RecordBatch:
        schema = self._batches.schema
        arrays = [pa.array([], field.type) for field in schema]
        return self._as_travels(pa.RecordBatch.from_arrays(arrays, schema=schema))

    def _as_travels(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = [
            self._column(array, pair, type_)
            for array, pair, type_ in zip(batch.columns, self._pairs, self._types, strict=False)
        ]
        self._passed += batch.num_rows
        if not columns:
            return batch
        return pa.RecordBatch.from_arrays(columns, [pair.target for pair in self._pairs])

    def _column(self, array: pa.Array, pair: ColumnPair, type_: Type) -> pa.Array:
        if type_.id == "uuid":
            stored = array.cast(pa.binary(16))
            return pa.ExtensionArray.from_storage(pa.uuid(), stored)
        try:
            check_finite(array)
        except Infinite:
            raise self._infinite(array, pair.source) from None
        return array

    def _infinite(self, array: pa.Array, column: str) -> PermanentError:
        row = first_failing(array, check_finite)
        try:
            check_finite(own(array.slice(row, 1)))
            raise AssertionError("that row is finite")
        except Infinite as found:
            return PermanentError(
                f"{self._subject}: column {column!r}, row {self._passed + row + 1:,}: expected a "
                f"finite {found.kind}, found {found}, which record batches cannot carry; leave it "
                f"out with --where, or use --query with CASE WHEN isfinite({column}) "
                f"THEN {column} END",
                Diagnosis(side="source"),
            )


def pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The batch in parts that are not too large."""
    parts = max(1, -(-batch.nbytes // BATCH_BYTES))
    rows = max(1, -(-batch.num_rows // parts))
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)
