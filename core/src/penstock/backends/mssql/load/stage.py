"""A stage: a table of one attempt, filled by the bulk loader over its own connection."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from penstock.backends.api.execution.attempt import Attempt
from penstock.backends.mssql.catalog.tables import COLLATION
from penstock.backends.mssql.errors import DriverError, from_driver
from penstock.backends.mssql.load.code_pages import guards_of
from penstock.backends.mssql.records import MssqlRecords
from penstock.backends.mssql.types import MsType
from penstock.backends.shared.values.hex_values import uuid_texts
from penstock.backends.sql.catalog.relations import TYPE
from penstock.backends.sql.server.table_stage import TableStage
from penstock.errors import Diagnosis, PenstockError, PermanentError, TransientError
from penstock.model import values
from penstock.model.tables import Column

# In bulk loads Babelfish corrupts decimals with fewer digits, and does not accept CHAR.
_NARROW = 28
ALIGNMENT = 16
"""The alignment of 128-bit numbers that the loader requires."""


class BulkStage(TableStage[MssqlRecords]):
    """A stage filled by bulk loads."""

    def __init__(
        self, records: MssqlRecords, attempt: Attempt, token: str, columns: Sequence[Column]
    ) -> None:
        self.texts = [column.name for column in columns if column.traits[COLLATION]]
        """Names of those whose values are texts."""
        super().__init__(records, attempt, token, columns, list(map(guards_of, columns)))

    def staged_type(self, column: Column) -> str:
        of, babelfish = column.traits[TYPE], self._records.connection.babelfish
        assert isinstance(of, MsType)
        type_ = str(of)
        if babelfish and of.name in ("decimal", "numeric") and of.length <= _NARROW:
            type_ = f"decimal(38,{of.scale})"
        elif babelfish and of.name in ("char", "nchar"):
            type_ = "nvarchar(max)"
        collation = column.traits[COLLATION]
        # Texts with different collations cannot be compared.
        return f"{type_} COLLATE {collation}" if collation else type_

    def load(self, batches: Iterator[pa.RecordBatch]) -> int:
        columns = {column.name: column.traits[TYPE] for column in self._columns}
        return self._records.connection.load(self.table, columns, batches)

    def translated_error(self, error: BaseException) -> BaseException:
        if isinstance(error, PenstockError):
            return error
        if isinstance(error, DriverError):
            return from_driver(error, self._subject)
        if isinstance(error, (ValueError, TypeError, pa.ArrowException)):
            return PermanentError(
                f"{self._subject}: {values.server_message(str(error))}", Diagnosis(side="target")
            )
        return TransientError(
            f"{self._subject}: bulk load: {values.server_message(str(error))}",
            Diagnosis(side="target"),
        )

    def as_loaded(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch in the loader's form: UUIDs as texts, and aligned buffers."""
        columns = [
            uuid_texts(array).cast(pa.string()) if array.type == pa.uuid() else align(array)
            for array in batch.columns
        ]
        return pa.RecordBatch.from_arrays(columns, batch.schema.names)


def align(array: pa.Array) -> pa.Array:
    """Copy an array to buffers aligned to `ALIGNMENT`, which buffers from a stream may not be.

    https://arrow.apache.org/docs/format/Columnar.html#buffer-alignment-and-padding
    """
    buffers = array.buffers()
    if all(buffer is None or buffer.address % ALIGNMENT == 0 for buffer in buffers):
        return array
    copies = [None if buffer is None else _copy(buffer) for buffer in buffers]
    return pa.Array.from_buffers(array.type, len(array), copies, offset=array.offset)


def _copy(buffer: pa.Buffer) -> pa.Buffer:
    copy = pa.allocate_buffer(buffer.size)
    memoryview(copy)[:] = memoryview(buffer)
    return copy
