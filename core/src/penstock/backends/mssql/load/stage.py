"""A stage: a table of one attempt's own, which the bulk loader fills over its own connection."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress

import pyarrow as pa

from penstock.backends.api.attempt import Attempt
from penstock.backends.api.worker import Block, Wait
from penstock.backends.mssql.catalog.tables import COLLATION
from penstock.backends.mssql.connection import Connection
from penstock.backends.mssql.errors import DriverError, from_driver, translated
from penstock.backends.mssql.load.code_pages import guards_of
from penstock.backends.mssql.records import MssqlRecords
from penstock.backends.mssql.types import MsType
from penstock.backends.shared.arrow import Caster, schema_from_text
from penstock.backends.shared.background import computing
from penstock.backends.shared.guards import check_values
from penstock.backends.shared.hex_values import uuid_texts
from penstock.backends.sql.relations import TYPE
from penstock.backends.sql.server.writer import ServerStage
from penstock.errors import Diagnosis, PenstockError, PermanentError, TransientError
from penstock.model import values
from penstock.model.tables import Column

# Batches that wait for the loader.
ROOM = 2
ABANDON_SECONDS = 2.0
# Babelfish takes decimals of fewer digits wrongly, and CHAR not at all, from bulk loads.
_NARROW = 28
ALIGNMENT = 16
"""Of 128-bit numbers, as the loader takes them."""


class _Abandoned(Exception):
    """Ends a bulk load."""


class BulkStage(ServerStage[MssqlRecords]):
    """See `Stage`.

    Parameters:
        columns: those of the target that are loaded.
    """

    def __init__(
        self,
        records: MssqlRecords,
        attempt: Attempt,
        token: str,
        columns: Sequence[Column],
    ) -> None:
        super().__init__(records, attempt, token)
        self._columns = list(columns)
        self.texts = [column.name for column in columns if column.traits[COLLATION]]
        """Names of those whose values are texts."""
        self._guards = [list(guards_of(column)) for column in columns]
        self._caster = Caster(schema_from_text(attempt.spec.schema), self._subject)
        connection = records.connection
        self.table = records.stage_table(token)
        listed = ", ".join(
            f"{records.ident(column.name)} {_staged_type(column, connection)} NULL"
            for column in columns
        )
        with translated("target", "stage"):
            connection.change(f"CREATE TABLE {self.table} ({listed})")
        self._batches: queue.SimpleQueue[pa.RecordBatch | None] = queue.SimpleQueue()
        # A byte for each batch that may be handed over, and for the end.
        self._told, self._tell = os.pipe()
        os.write(self._tell, b"." * ROOM)
        self._error: BaseException | None = None
        self._abandoned = self._ended = False
        self._passed = self._taken = 0
        self._thread = threading.Thread(target=self._load, name="bulk", daemon=True)
        self._thread.start()

    # In the thread

    def _load(self) -> None:
        try:
            columns = {column.name: column.traits[TYPE] for column in self._columns}
            self._taken = self._records.connection.load(self.table, columns, self._handed())
        except BaseException as error:
            self._error = error
        finally:
            self._ended = True
            with suppress(OSError):
                os.write(self._tell, b"." * (ROOM + 1))

    def _handed(self) -> Iterator[pa.RecordBatch]:
        while (batch := self._batches.get()) is not None:
            yield batch
            os.write(self._tell, b".")
        if self._abandoned:
            raise _Abandoned

    # As a stream

    def fileno(self) -> int:
        return -1

    def check(self) -> None:
        """What the loader says is heard with the next block."""

    def write(self, block: Block, wait: Wait) -> None:
        batch = self._caster.cast(block)
        check_values(batch, self._guards, self._subject, self._passed)
        self._wait_for_room(wait)
        self._passed += batch.num_rows
        self._batches.put(_as_loaded(batch))
        self.beat()

    def _wait_for_room(self, wait: Wait) -> None:
        wait("target", self._told, False)
        os.read(self._told, 1)
        if self._error is not None:
            raise self._refused(self._error)

    def end(self, wait: Wait) -> int:
        self._batches.put(None)
        while not self._ended:
            computing(wait)("target", self._told, False)
            os.read(self._told, 1)
        self._thread.join(ABANDON_SECONDS)
        if self._error is not None:
            raise self._refused(self._error)
        if self._taken != self._passed:
            raise TransientError(
                f"{self._subject}: expected {self._passed:,} rows to be staged, found "
                f"{self._taken:,}",
                Diagnosis(side="target"),
            )
        return self._taken

    def _refused(self, error: BaseException) -> BaseException:
        if isinstance(error, PenstockError):
            return error
        if isinstance(error, DriverError):
            return from_driver(error, self._subject)
        if isinstance(error, (ValueError, TypeError, pa.ArrowException)):
            return PermanentError(
                f"{self._subject}: {values.said(str(error))}", Diagnosis(side="target")
            )
        return TransientError(
            f"{self._subject}: bulk load: {values.said(str(error))}", Diagnosis(side="target")
        )

    # As a stage

    @property
    def rows(self) -> int:
        """After the end."""
        return self._taken

    def remove(self) -> None:
        self._abandoned = True
        self._batches.put(None)
        self._thread.join(ABANDON_SECONDS)
        with suppress(PenstockError, DriverError):
            self._records.drop_stage(self._token)
        for end in (self._told, self._tell):
            with suppress(OSError):
                os.close(end)


def _staged_type(column: Column, connection: Connection) -> str:
    of = column.traits[TYPE]
    assert isinstance(of, MsType)
    written = str(of)
    if connection.babelfish and of.name in ("decimal", "numeric") and of.length <= _NARROW:
        written = f"decimal(38,{of.scale})"
    elif connection.babelfish and of.name in ("char", "nchar"):
        written = "nvarchar(max)"
    collation = column.traits[COLLATION]
    # Texts of unlike collations cannot be compared.
    return f"{written} COLLATE {collation}" if collation else written


def _as_loaded(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The loader knows no UUIDs, but their texts; and takes no numbers at odd addresses."""
    columns = [
        uuid_texts(array).cast(pa.string()) if array.type == pa.uuid() else aligned(array)
        for array in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, batch.schema.names)


def aligned(array: pa.Array) -> pa.Array:
    """The same with buffers at addresses that are multiples of `ALIGNMENT`: streams may have them
    at others.

    https://arrow.apache.org/docs/format/Columnar.html#buffer-alignment-and-padding
    """
    buffers = array.buffers()
    if all(buffer is None or buffer.address % ALIGNMENT == 0 for buffer in buffers):
        return array
    copies = [None if buffer is None else _copied(buffer) for buffer in buffers]
    return pa.Array.from_buffers(array.type, len(array), copies, offset=array.offset)


def _copied(buffer: pa.Buffer) -> pa.Buffer:
    copy = pa.allocate_buffer(buffer.size)
    memoryview(copy)[:] = memoryview(buffer)
    return copy
