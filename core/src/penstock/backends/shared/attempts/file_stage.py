"""A stage that is a file: an Arrow stream next to the database."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any

import pyarrow as pa

from penstock.backends.api.execution.attempt import Attempt
from penstock.backends.api.worker import Block, Wait
from penstock.backends.shared.attempts.attempt_files import AttemptFiles
from penstock.backends.shared.attempts.locked_files import is_at
from penstock.backends.shared.attempts.refusals import attempt_ended
from penstock.backends.shared.values.arrow import Caster, schema_from_text
from penstock.errors import Diagnosis, PermanentError

# Compressing to less than half takes four times the CPU of writing as it is. Streams of an unknown
# size, or larger ones, could fill the disk.
MOST_UNCOMPRESSED = 256 << 20


class FileStage:
    """See `Stage`. Its attempt locks it as long as it lives."""

    def __init__(self, files: AttemptFiles, attempt: Attempt) -> None:
        self._attempt = attempt
        self.subject = f"target: partition {attempt.partition.id}"
        self._schema = schema_from_text(attempt.spec.schema)
        self._path, self._descriptor = files.create(attempt)
        self._sink: Any = None
        self._writer: Any = None
        self._caster: Caster | None = None
        self.rows = self.bytes = 0
        """The number of staged rows, and their size."""
        self.widest = 0
        """The size in bytes of the largest batch that was staged."""

    def staged_type(self, source_type: pa.DataType, column_type: pa.DataType) -> pa.DataType:
        """Return the type in which values are staged for a column of another type.

        Arrow casts to it exactly, and the database casts the rest.
        """
        return column_type

    def check_values(self, batch: pa.RecordBatch, rows_before: int) -> None:
        """Check for values that the database would silently change.

        Args:
            batch: the record batch.
            rows_before: the number of rows before the batch.

        Raises:
            PermanentError: the database would change some values.
        """
        return

    def fileno(self) -> int:
        return -1

    def check(self) -> None:
        """Do nothing: there is no server to hear from."""

    def write(self, block: Block, wait: Wait) -> None:
        """Write one block.

        Raises:
            PermanentError: a value does not fit, or the disk is full.
        """
        if self._caster is None:
            schema = pa.schema(
                pa.field(field.name, self.staged_type(mine.type, field.type), field.nullable)
                for mine, field in zip(block.schema, self._schema, strict=True)
            )
            self._caster = Caster(schema, self.subject)
            self._sink = os.fdopen(os.dup(self._descriptor), "wb")
            size = self._attempt.partition.bytes
            small = size is not None and size <= MOST_UNCOMPRESSED
            options = pa.ipc.IpcWriteOptions(compression=None if small else "lz4")
            self._writer = pa.ipc.new_stream(self._sink, schema, options=options)
        cast = self._caster.cast(block)
        self.check_values(cast, self.rows)
        try:
            self._writer.write_batch(cast)
        except OSError as error:
            raise PermanentError(
                f"{self.subject}: cannot be staged in {self._path}: {error}",
                Diagnosis(side="target"),
            ) from error
        self.rows += block.num_rows
        self.bytes += cast.nbytes
        self.widest = max(self.widest, cast.nbytes)

    def end(self, wait: Wait) -> int:
        assert self._writer is not None
        self._writer.close()
        self._sink.close()
        return self.rows

    def check_held(self) -> None:
        if not is_at(self._descriptor, self._path):
            raise attempt_ended(self._attempt)

    def batches(self) -> pa.RecordBatchReader:
        """Return the staged batches.

        Raises:
            TransientError: as for `check_held`.
        """
        try:
            return pa.ipc.open_stream(pa.OSFile(self._path, "rb"))
        except FileNotFoundError:
            raise attempt_ended(self._attempt) from None

    def remove(self) -> None:
        with suppress(OSError, pa.ArrowInvalid):
            if self._sink is not None:
                self._sink.close()
        with suppress(OSError):
            if is_at(self._descriptor, self._path):
                os.unlink(self._path)
        with suppress(OSError):
            os.close(self._descriptor)
