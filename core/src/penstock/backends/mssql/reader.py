"""A partition's rows as record batches."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from penstock.backends.mssql.catalog.partitions import rows_of_extent, with_partition_test
from penstock.backends.mssql.connection import connect
from penstock.backends.mssql.session import MssqlSession
from penstock.backends.mssql.snapshot import enter
from penstock.backends.mssql.types import TYPES, MsType
from penstock.backends.shared.values.planned_types import PromisedTypes
from penstock.backends.sql.server.reader import BATCH_ROWS, BatchQueryReader
from penstock.model.plans import Partition

BATCH_BYTES = 4 << 20


class MssqlReader(BatchQueryReader[MssqlSession]):
    """A reader of partitions from SQL Server."""

    types = TYPES

    def connect(self) -> MssqlSession:
        connection = connect(self._spec.source, "source")
        try:
            if self._spec.snapshot:
                enter(connection, self._spec.snapshot)
        except BaseException:
            connection.close()
            raise
        return MssqlSession(connection)

    def fetch_batches(
        self, session: MssqlSession, query: str, promised: PromisedTypes[MsType]
    ) -> Iterator[pa.RecordBatch]:
        return session.connection.batches(query, BATCH_ROWS, BATCH_BYTES, promised.arrow_types)

    def selection(self, session: MssqlSession, partition: Partition) -> tuple[str, str]:
        rows, chosen = super().selection(session, partition)
        extent = partition.extent
        return rows_of_extent(rows, extent), with_partition_test(
            session, self._spec.relation, extent, chosen
        )

    def travelling(self, session: MssqlSession, value: str, type_: MsType) -> str:
        return session.connection.driver.travelling(value, type_)


open_reader = MssqlReader
