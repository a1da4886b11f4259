"""A partition's rows as record batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from penstock.backends.mssql.catalog.partitions import tested, within
from penstock.backends.mssql.connection import connect
from penstock.backends.mssql.dialect import MSSQL
from penstock.backends.mssql.errors import translated
from penstock.backends.mssql.session import MssqlSession
from penstock.backends.mssql.snapshot import enter
from penstock.backends.mssql.types import MsType, arrow_type, finer
from penstock.backends.shared.batch_reader import BatchReader
from penstock.backends.shared.passing import Passing
from penstock.backends.sql.conditions import condition
from penstock.model.plans import Partition
from penstock.spec.worker_spec import WorkerSpec

BATCH_ROWS = 16_384
BATCH_BYTES = 4 << 20
_FINE = (
    "a time of 100 nanoseconds, which record batches would lose; use --query with CAST(... AS "
    "datetime2(6)), or datetimeoffset(6) or time(6), which rounds it"
)


class MssqlReader(BatchReader):
    def __init__(self, spec: WorkerSpec) -> None:
        super().__init__(spec)
        self._session: MssqlSession | None = None
        self._types: list[MsType] = []

    def switch_run(self, spec: WorkerSpec) -> None:
        if spec.snapshot != self._spec.snapshot:
            self.abandon()
        self._spec = spec
        self._types = []

    def batches(
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
            names = [pair.target for pair in spec.pairs]
            passing = as_promised(names, self._types, f"source: {spec.relation}, {subject}")
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


open_reader = MssqlReader


def as_promised(names: Sequence[str], types: Sequence[MsType], subject: str) -> Passing[MsType]:
    """
    Parameters:
        subject: for errors.
    """
    return Passing(names, types, arrow_type=arrow_type, finer=finer, found=_FINE, subject=subject)
