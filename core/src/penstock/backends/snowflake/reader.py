"""A partition's rows as record batches: one part of the result ahead.

The server cuts a result into parts, which are Arrow's already; each is fetched when the one before
is on its way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from penstock.backends.shared.passing import Passing
from penstock.backends.snowflake.connection import Connection, connect
from penstock.backends.snowflake.session import SnowflakeSession
from penstock.backends.snowflake.types import SnowType, arrow_type, finer, travelling
from penstock.backends.sql.server.reader import ServerReader
from penstock.spec.worker_spec import WorkerSpec

BATCH_ROWS = 16_384
LOSS = (
    "nanoseconds, which record batches would lose; use --query with CAST(... AS "
    "TIMESTAMP_NTZ(6)), or TIMESTAMP_LTZ(6) or TIME(6), which cuts them off"
)


class SnowflakeReader(ServerReader[SnowflakeSession, Passing]):
    def switch_run(self, spec: WorkerSpec) -> None:
        # A moment is said in each statement: the session stays.
        self._spec, self._types = spec, []
        if self._session is not None:
            self._session.moment = spec.snapshot or ""

    def connected(self) -> SnowflakeSession:
        session = SnowflakeSession(connect(self._spec.source, "source"))
        session.moment = self._spec.snapshot or ""
        return session

    def connection(self, session: SnowflakeSession) -> Connection:
        return session.connection

    def travelling(self, session: SnowflakeSession, name: str, type_: SnowType) -> str:
        return travelling(name, type_)

    def finer(self, name: str, type_: SnowType) -> str:
        return finer(name, type_)

    def passing(
        self, names: Sequence[str], types: Sequence[SnowType], fine: Sequence[str], subject: str
    ) -> Passing:
        wanted = [arrow_type(type_) or pa.null() for type_ in types]
        return Passing(names, types, wanted, fine, LOSS, subject)

    def batches(
        self, session: SnowflakeSession, query: str, passing: Passing
    ) -> Iterator[pa.RecordBatch]:
        empty = [pa.array([], kind) for kind in passing.wanted]
        yield pa.RecordBatch.from_arrays(empty, [""] * len(empty))
        for table in session.connection.tables(query):
            yield from table.combine_chunks().to_batches(BATCH_ROWS)
