"""A partition's rows as record batches: in a thread, one part of the result ahead.

The server cuts a result into parts, which are Arrow's already; each is fetched when the one before
is on its way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

from penstock.backends.shared.batch_reader import BatchReader
from penstock.backends.shared.passing import Passing
from penstock.backends.snowflake.connection import connect
from penstock.backends.snowflake.dialect import SNOWFLAKE
from penstock.backends.snowflake.errors import translated
from penstock.backends.snowflake.session import SnowflakeSession
from penstock.backends.snowflake.types import SnowType, arrow_type, finer, travelling
from penstock.backends.sql.conditions import condition
from penstock.model.plans import Partition
from penstock.spec.worker_spec import WorkerSpec

BATCH_ROWS = 16_384
_FINE = (
    "a time of nanoseconds, which record batches would lose; use --query with CAST(... AS "
    "TIMESTAMP_NTZ(6)), or TIMESTAMP_LTZ(6) or TIME(6), which cuts them off"
)


class SnowflakeReader(BatchReader):
    def __init__(self, spec: WorkerSpec) -> None:
        super().__init__(spec)
        self._session: SnowflakeSession | None = None
        self._types: list[SnowType] = []

    def switch_run(self, spec: WorkerSpec) -> None:
        self._spec = spec
        self._types = []

    def batches(
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
            passing = Passing(
                [pair.target for pair in spec.pairs],
                self._types,
                arrow_type=lambda type_: arrow_type(type_) or pa.null(),
                finer=finer,
                found=_FINE,
                subject=f"source: {spec.relation}, {subject}",
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


open_reader = SnowflakeReader
