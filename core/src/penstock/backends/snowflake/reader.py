"""A partition's rows as record batches: in a thread, one part of the result ahead.

The server cuts a result into parts, which are Arrow's already; each is fetched when the one before
is on its way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from penstock.backends.api.worker import Block, Wait
from penstock.backends.shared.background import Ahead
from penstock.backends.snowflake.connection import connect
from penstock.backends.snowflake.dialect import SNOWFLAKE
from penstock.backends.snowflake.errors import translated
from penstock.backends.snowflake.session import SnowflakeSession
from penstock.backends.snowflake.types import SnowType, arrow_type, finer, travelling
from penstock.backends.sql.conditions import condition
from penstock.errors import Diagnosis, PermanentError
from penstock.model.plans import Partition
from penstock.spec.worker_spec import WorkerSpec

BATCH_ROWS = 16_384


class SnowflakeReader:
    rows = 0

    def __init__(self, spec: WorkerSpec) -> None:
        self._spec = spec
        self._session: SnowflakeSession | None = None
        self._types: list[SnowType] = []
        self._ahead: Ahead[pa.RecordBatch] | None = None

    def switch_run(self, spec: WorkerSpec) -> None:
        self._spec = spec
        self._types = []

    def label(self, application_name: str) -> None:
        """Sessions have one tag for all that they do."""

    def read(self, partition: Partition, wait: Wait) -> Iterator[tuple[Block, int, int]]:
        self.rows = 0
        self._ahead = Ahead(lambda stopped: self._batches(partition, stopped))
        for batch in self._ahead.take(wait):
            self.rows += batch.num_rows
            yield batch, batch.num_rows, batch.nbytes
            del batch

    def _batches(
        self, partition: Partition, stopped: Callable[[], bool]
    ) -> Iterator[pa.RecordBatch]:
        spec, subject = self._spec, f"partition {partition.id}"
        with translated("source", subject):
            session = self._connected()
            rows = session.rows_of(spec.relation)
            names = [SNOWFLAKE.ident(pair.source) for pair in spec.pairs]
            if not self._types:
                query = f"SELECT {', '.join(names)} FROM {rows}"
                self._types = [type_ for _, type_ in session.describe(query, subject)]
            listed = list(map(travelling, names, self._types))
            tests = list(filter(None, map(finer, names, self._types)))
            if tests:
                listed.append(f"IFF({' OR '.join(tests)}, 1, 0)")
            query = (
                f"SELECT {', '.join(listed) or '1'} FROM {rows}"
                f" WHERE {condition(SNOWFLAKE, spec.where, partition.extent)}"
            )
            passing = _Passing(
                [pair.target for pair in spec.pairs],
                self._types,
                f"source: {spec.relation}, {subject}",
            )
            yield passing.nothing()
            for table in session.connection.tables(query):
                for batch in table.combine_chunks().to_batches(BATCH_ROWS):
                    yield passing.as_travels(batch)
                    if stopped():
                        return

    def _connected(self) -> SnowflakeSession:
        if self._session is None:
            self._session = SnowflakeSession(connect(self._spec.source, "source"))
        self._session.moment = self._spec.snapshot or ""
        return self._session

    def abandon(self) -> None:
        ahead, self._ahead = self._ahead, None
        session, self._session = self._session, None
        if session is not None:
            if ahead is not None:
                ahead.leave(session.connection.interrupt)
            session.connection.close()


class _Passing:
    """Batches as they travel: of the types that the plan has promised.

    Parameters:
        subject: for errors.
    """

    def __init__(self, names: list[str], types: list[SnowType], subject: str) -> None:
        self._names = names
        self._types = types
        self._wanted = [arrow_type(type_) or pa.null() for type_ in types]
        self._subject = subject
        self._rows = 0

    def nothing(self) -> pa.RecordBatch:
        empty = [pa.array([], kind) for kind in self._wanted]
        return pa.RecordBatch.from_arrays(empty, self._names)

    def as_travels(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if batch.num_columns > len(self._names):
            self._check_fine(batch.column(len(self._names)))
        columns = [
            self._column(array, place)
            for place, array in enumerate(batch.columns[: len(self._names)])
        ]
        self._rows += batch.num_rows
        return pa.RecordBatch.from_arrays(columns, self._names)

    def _column(self, array: pa.Array, place: int) -> pa.Array:
        wanted = self._wanted[place]
        try:
            return array if array.type == wanted else array.cast(wanted)
        except pa.ArrowInvalid as error:
            raise PermanentError(
                f"{self._subject}: column {self._names[place]!r}, rows {self._rows + 1:,} to "
                f"{self._rows + len(array):,}: expected values of type {self._types[place]}, "
                f"found: {error}",
                Diagnosis(side="source"),
            ) from error

    def _check_fine(self, tested: pa.Array) -> None:
        """
        Raises:
            PermanentError: a time of less than a microsecond.
        """
        row = pc.index(tested, pa.scalar(1, tested.type)).as_py()
        if row >= 0:
            names = [
                n for n, type_ in zip(self._names, self._types, strict=True) if finer(n, type_)
            ]
            raise PermanentError(
                f"{self._subject}: column {' or '.join(map(repr, names))}, row "
                f"{self._rows + row + 1:,}: expected whole microseconds, found a time of "
                "nanoseconds, which record batches would lose; use --query with CAST(... AS "
                "TIMESTAMP_NTZ(6)), or TIMESTAMP_LTZ(6) or TIME(6), which cuts them off",
                Diagnosis(side="source"),
            )
