"""A partition's rows as record batches.

The server divides a result into parts in Arrow's format; each is fetched while the previous one is
being sent.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from penstock.backends.shared.values.planned_types import PromisedTypes
from penstock.backends.snowflake.connection import connect
from penstock.backends.snowflake.session import SnowflakeSession
from penstock.backends.snowflake.types import TYPES, SnowType
from penstock.backends.sql.server.reader import BATCH_ROWS, BatchQueryReader


class SnowflakeReader(BatchQueryReader[SnowflakeSession]):
    """A reader of partitions from Snowflake."""

    types = TYPES

    def connect(self) -> SnowflakeSession:
        session = SnowflakeSession(connect(self._spec.source, "source"))
        session.moment = self._spec.snapshot or ""
        return session

    def fetch_batches(
        self, session: SnowflakeSession, query: str, promised: PromisedTypes[SnowType]
    ) -> Iterator[pa.RecordBatch]:
        yield promised.empty_batch()
        for table in session.connection.tables(query):
            yield from table.combine_chunks().to_batches(BATCH_ROWS)


open_reader = SnowflakeReader
