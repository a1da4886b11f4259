"""A partition's rows as record batches."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pyarrow as pa

from penstock.backends.clickhouse.connection import connect
from penstock.backends.clickhouse.session import ClickHouseSession
from penstock.backends.clickhouse.types import TYPES, ChType
from penstock.backends.shared.values.arrow import exactly, first_failing
from penstock.backends.shared.values.planned_types import PromisedTypes
from penstock.backends.sql.server.reader import BATCH_ROWS, BatchQueryReader
from penstock.errors import Diagnosis, PermanentError
from penstock.model import values

# Small enough to limit memory for wide rows.
BATCH_BYTES = 4 << 20
_SETTINGS = f"max_block_size = {BATCH_ROWS}, preferred_block_size_bytes = {BATCH_BYTES}"


class ClickHouseReader(BatchQueryReader[ClickHouseSession]):
    """A reader of partitions from a ClickHouse server."""

    types = TYPES

    def connect(self) -> ClickHouseSession:
        return ClickHouseSession(connect(self._spec.source, "source"))

    def fetch_batches(
        self, session: ClickHouseSession, query: str, promised: PromisedTypes[ChType]
    ) -> Iterator[pa.RecordBatch]:
        yield promised.empty_batch()
        rows_before = 0
        for batch in session.connection.batches(f"{query} SETTINGS {_SETTINGS}"):
            yield self._exactly(batch, promised, rows_before)
            rows_before += batch.num_rows

    def _exactly(
        self, batch: pa.RecordBatch, promised: PromisedTypes[ChType], rows_before: int
    ) -> pa.RecordBatch:
        """Convert a batch to the promised types, checking that texts are valid.

        Args:
            batch: a batch from the server.
            promised: the types that the plan promises to the target.
            rows_before: the number of rows before the batch.

        Raises:
            PermanentError: a value does not fit its type; names its row.
        """
        arrays = []
        for array, type_, arrow_type, pair in zip(
            batch.columns, self._source_types, promised.arrow_types, self._spec.pairs, strict=True
        ):
            try:
                arrays.append(_exactly(array, arrow_type))
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                row = first_failing(array, partial(_exactly, arrow_type=arrow_type))
                reason = values.server_message(str(error))
                raise PermanentError(
                    f"{promised.subject}: column {pair.source!r}, row {rows_before + row + 1:,}: "
                    f"expected a value of {type_}, as {arrow_type}, found: {reason}; to copy the "
                    f"bytes of a String, use --query with hex({pair.source})",
                    Diagnosis(side="source"),
                ) from error
        return pa.RecordBatch.from_arrays(arrays, batch.schema.names)


def _exactly(array: pa.Array, arrow_type: pa.DataType) -> pa.Array:
    exact = exactly(array, arrow_type)
    if pa.types.is_string(arrow_type) or pa.types.is_list(arrow_type):
        exact.validate(full=True)  # the server's String holds any bytes
    return exact


open_reader = ClickHouseReader
