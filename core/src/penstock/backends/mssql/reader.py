"""A partition's rows as record batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from penstock.backends.mssql.connection import Connection, connect
from penstock.backends.mssql.partitions import tested, within
from penstock.backends.mssql.session import MssqlSession
from penstock.backends.mssql.snapshot import enter
from penstock.backends.mssql.types import MsType, arrow_type, finer
from penstock.backends.shared.passing import Passing
from penstock.backends.sql.server.reader import ServerReader
from penstock.model.plans import Partition

BATCH_ROWS = 16_384
BATCH_BYTES = 4 << 20
LOSS = (
    "100 nanoseconds, which record batches would lose; use --query with CAST(... AS "
    "datetime2(6)), or datetimeoffset(6) or time(6), which rounds it"
)


class MssqlReader(ServerReader[MssqlSession, Passing]):
    def connected(self) -> MssqlSession:
        connection = connect(self._spec.source, "source")
        session = MssqlSession(connection)
        try:
            with session.translated():
                if self._spec.snapshot:
                    enter(connection, self._spec.snapshot)
        except BaseException:
            connection.close()
            raise
        return session

    def connection(self, session: MssqlSession) -> Connection:
        return session.connection

    def travelling(self, session: MssqlSession, name: str, type_: MsType) -> str:
        return session.connection.driver.travelling(name, type_)

    def finer(self, name: str, type_: MsType) -> str:
        return finer(name, type_)

    def passing(
        self, names: Sequence[str], types: Sequence[MsType], fine: Sequence[str], subject: str
    ) -> Passing:
        return Passing(names, types, list(map(arrow_type, types)), fine, LOSS, subject)

    def rows_of(self, session: MssqlSession, partition: Partition) -> str:
        return within(super().rows_of(session, partition), partition.extent)

    def chosen(self, session: MssqlSession, partition: Partition) -> str:
        chosen = super().chosen(session, partition)
        return tested(session, self._spec.relation, partition.extent, chosen)

    def batches(
        self, session: MssqlSession, query: str, passing: Passing
    ) -> Iterator[pa.RecordBatch]:
        return session.connection.batches(query, BATCH_ROWS, BATCH_BYTES, passing.wanted)
