"""A partition's rows as record batches."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pyarrow as pa

from penstock.backends.duckdb.catalog.values import travelling
from penstock.backends.duckdb.connection import allow_values_in, connect_to_read
from penstock.backends.duckdb.dialect import DUCKDB, condition, ident
from penstock.backends.duckdb.errors import translated
from penstock.backends.duckdb.load.infinities import first_infinite
from penstock.backends.duckdb.session import DuckSession
from penstock.backends.duckdb.snapshot import check
from penstock.backends.shared.values.arrow import no_rows
from penstock.backends.sql.dialect import Type
from penstock.backends.sql.one_file.reader import FileReader
from penstock.backends.sql.rows.computed_columns import computed_rows
from penstock.errors import Diagnosis, PermanentError, TransientError
from penstock.model.plans import Partition
from penstock.model.tables import ColumnPair, Relation, TableRef
from penstock.spec.worker_spec import WorkerSpec

# One DuckDB vector at a time: rows may be long, and larger batches gain nothing (measured).
BATCH_ROWS = 2048
BATCH_BYTES = 16 << 20


class DuckReader(FileReader[DuckSession]):
    """A reader of partitions from a DuckDB database."""

    def __init__(self, path: str | None, spec: WorkerSpec) -> None:
        super().__init__(path, spec)
        self._with_long_texts: set[Relation] = set()
        """The tables whose texts need more memory than usual."""

    def connect(self) -> DuckSession:
        pa.set_cpu_count(1)
        session = DuckSession(connect_to_read(self.path, "source", worker=True), "source")
        if self.path is not None and self.spec.snapshot is not None:
            check(self.path, self.spec.snapshot)
        return session

    def batches(self, session: DuckSession, partition: Partition) -> Iterator[pa.RecordBatch]:
        subject = f"partition {partition.id}"
        with translated("source", subject):
            query, types = self._query(session, partition)
            converter = _BatchConverter(self.spec.pairs, types, f"source: {subject}")
            table = self.spec.relation
            if table in self._with_long_texts:
                self._allow_values(session)
            again = False
            try:
                yield from self._read(session, query, converter)
            except (duckdb.OutOfMemoryException, OSError) as error:
                if "Out of Memory" not in str(error):  # Arrow reports it as an OSError
                    raise
                if table in self._with_long_texts or not self._allow_values(session):
                    raise PermanentError(
                        f"source: {subject}: after row {converter.rows:,}: the texts of the next "
                        "2,048 rows take more memory than a worker has; leave out large columns "
                        "(--exclude-columns)",
                        Diagnosis(side="source"),
                    ) from error
                self._with_long_texts.add(table)
                if converter.rows:
                    raise TransientError(
                        f"source: {subject}: after row {converter.rows:,}: the texts of the next "
                        "2,048 rows take more memory than a worker was given; it reads the "
                        "partition again with more",
                        Diagnosis(side="source"),
                    ) from error
                again = True
            if again:  # here, where the error no longer holds the first result
                yield from self._read(session, query, converter)

    def _allow_values(self, session: DuckSession) -> bool:
        table = self.spec.relation
        return isinstance(table, TableRef) and allow_values_in(
            session.connection, session.table(table)
        )

    @staticmethod
    def _read(
        session: DuckSession, query: str, converter: _BatchConverter
    ) -> Iterator[pa.RecordBatch]:
        with session.connection.sql(query).to_arrow_reader(BATCH_ROWS) as batches:
            for batch in batches:
                yield from pieces(converter.as_travels(batch))
            if not converter.rows:
                yield converter.as_travels(no_rows(batches.schema))

    def _query(self, session: DuckSession, partition: Partition) -> tuple[str, list[Type]]:
        """Return the statement that reads the run's columns, and their types."""
        spec, rows = self.spec, session.rows_of(self.spec.relation)
        session.hold(spec.session_values)
        chosen = condition(spec.where, partition.extent)
        rows, chosen = computed_rows(DUCKDB, rows, chosen, spec.pairs)
        by_name = dict(session.describe(f"SELECT * FROM {rows}", f"partition {partition.id}"))
        types = [by_name[pair.source] for pair in spec.pairs]
        listed = ", ".join(
            f"{travelling(ident(pair.source), type_)} AS {ident(pair.target)}"
            for pair, type_ in zip(spec.pairs, types, strict=True)
        )
        return f"SELECT {listed or '1'} FROM {rows} WHERE {chosen}", types


class _BatchConverter:
    """A filter for outgoing batches: UUIDs get Arrow's type, and infinite dates are rejected.

    Args:
        subject: the table or query, for error messages.
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
            (row, value), column = infinite, pair.source
            raise PermanentError(
                f"{self._subject}: column {column!r}, row {self.rows + row + 1:,}: expected a "
                f"finite {value.kind}, found {value}, which record batches cannot carry; leave it "
                f"out with --where, or use --query with CASE WHEN isfinite({column}) "
                f"THEN {column} END",
                Diagnosis(side="source"),
            )
        return array


def pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield the batch in parts of limited size."""
    parts = max(1, -(-batch.nbytes // BATCH_BYTES))
    rows = max(1, -(-batch.num_rows // parts))
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)


open_reader = DuckReader
