"""A partition's rows as record batches: in a thread, one batch ahead.

The driver looks at no signal while it waits for the server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from penstock.backends.api.worker import Block, Wait
from penstock.backends.mssql.connection import connect
from penstock.backends.mssql.dialect import MSSQL
from penstock.backends.mssql.errors import translated
from penstock.backends.mssql.partitions import tested, within
from penstock.backends.mssql.session import MssqlSession
from penstock.backends.mssql.snapshot import enter
from penstock.backends.mssql.types import MsType, arrow_type, finer
from penstock.backends.shared.background import Ahead
from penstock.backends.shared.hex_values import uuids_of
from penstock.backends.sql.conditions import condition
from penstock.errors import Diagnosis, PermanentError
from penstock.model.plans import Partition
from penstock.spec.worker_spec import WorkerSpec

BATCH_ROWS = 16_384
BATCH_BYTES = 4 << 20


class MssqlReader:
    rows = 0

    def __init__(self, spec: WorkerSpec) -> None:
        self._spec = spec
        self._session: MssqlSession | None = None
        self._types: list[MsType] = []
        self._ahead: Ahead[pa.RecordBatch] | None = None

    def switch_run(self, spec: WorkerSpec) -> None:
        if spec.snapshot != self._spec.snapshot:
            self.abandon()
        self._spec = spec
        self._types = []

    def label(self, application_name: str) -> None:
        """The driver names its sessions itself."""

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
            rows = within(session.rows_of(spec.relation), partition.extent)
            names = [MSSQL.ident(pair.source) for pair in spec.pairs]
            if not self._types:
                query = f"SELECT {', '.join(names)} FROM {rows}"
                self._types = [type_ for _, type_ in session.describe(query, subject)]
            listed = list(map(session.connection.driver.travelling, names, self._types))
            tests = list(filter(None, map(finer, names, self._types)))
            if tests:
                listed.append(f"CASE WHEN {' OR '.join(tests)} THEN 1 ELSE 0 END")
            chosen = condition(MSSQL, spec.where, partition.extent)
            chosen = tested(session, spec.relation, partition.extent, chosen)
            passing = _Passing(
                [pair.target for pair in spec.pairs],
                self._types,
                f"source: {spec.relation}, {subject}",
            )
            query = f"SELECT {', '.join(listed) or '1'} FROM {rows} WHERE {chosen}"
            for batch in session.connection.batches(query, BATCH_ROWS, BATCH_BYTES, passing.wanted):
                yield passing.as_travels(batch)
                if stopped():
                    return

    def _connected(self) -> MssqlSession:
        if self._session is None:
            connection = connect(self._spec.source, "source")
            self._session = MssqlSession(connection)
            if self._spec.snapshot:
                enter(connection, self._spec.snapshot)
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

    def __init__(self, names: list[str], types: list[MsType], subject: str) -> None:
        self._names = names
        self._types = types
        self.wanted = list(map(arrow_type, types))
        self._subject = subject
        self._rows = 0

    def as_travels(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if batch.num_columns > len(self._names) and self._names:
            self._check_fine(batch.column(len(self._names)))
        columns = [
            self._column(array, place)
            for place, array in enumerate(batch.columns[: len(self._names)])
        ]
        self._rows += batch.num_rows
        return pa.RecordBatch.from_arrays(columns, self._names) if columns else batch

    def _column(self, array: pa.Array, place: int) -> pa.Array:
        wanted = self.wanted[place]
        if array.type == wanted:
            return array
        try:
            if wanted == pa.uuid():
                return uuids_of(array)
            return array.cast(wanted)
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
                f"{self._rows + row + 1:,}: expected whole microseconds, found a time of 100 "
                "nanoseconds, which record batches would lose; use --query with CAST(... AS "
                "datetime2(6)), or datetimeoffset(6) or time(6), which rounds it",
                Diagnosis(side="source"),
            )
