"""The file in which an attempt's rows are staged: an Arrow stream beside the database."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from typing import Any

import pyarrow as pa

from penstock.backends.api.attempt import Attempt
from penstock.backends.api.worker import Block, Wait
from penstock.backends.duckdb.load.fitting import staged_type
from penstock.backends.duckdb.load.folder import create, folder_of, stage_name
from penstock.backends.duckdb.load.infinite import first_infinite
from penstock.backends.shared.arrow import Caster, schema_from_text, shown
from penstock.backends.shared.locked_files import is_at, try_lock
from penstock.backends.shared.refusals import attempt_ended
from penstock.errors import Diagnosis, PermanentError


class FileStage:
    """Locked by its attempt as long as that lives."""

    def __init__(self, path: str, attempt: Attempt) -> None:
        spec, partition_id = attempt.spec, attempt.partition.id
        name = stage_name(spec.run_id, partition_id, attempt.number, secrets.token_hex(4))
        self._attempt = attempt
        self.file = os.path.join(folder_of(path), name)
        self._subject = f"target: partition {partition_id}"
        self._wanted = schema_from_text(spec.schema)
        self._descriptor = self._locked(path, name)
        self._sink: Any = None
        self._writer: Any = None
        self._caster: Caster | None = None
        self._rows = 0

    def _locked(self, path: str, name: str) -> int:
        while True:
            descriptor = create(path, name)
            # Who sweeps at this moment finds it unlocked, and may remove it.
            if try_lock(descriptor) and is_at(descriptor, self.file):
                return descriptor
            os.close(descriptor)

    def fileno(self) -> int:
        return -1

    def check(self) -> None:
        """There is no server that could say anything."""

    def write(self, block: Block, wait: Wait) -> None:
        """
        Raises:
            PermanentError: a value does not fit, or the folder has no room left.
        """
        if self._caster is None:
            schema = pa.schema(
                pa.field(field.name, staged_type(mine.type, field.type), field.nullable)
                for mine, field in zip(block.schema, self._wanted, strict=True)
            )
            self._caster = Caster(schema, self._subject)
            self._sink = os.fdopen(os.dup(self._descriptor), "wb")
            options = pa.ipc.IpcWriteOptions(compression="lz4")
            self._writer = pa.ipc.new_stream(self._sink, schema, options=options)
        cast = self._caster.cast(block)
        self._check_finite(cast)
        try:
            self._writer.write_batch(cast)
        except OSError as error:
            raise PermanentError(
                f"{self._subject}: cannot be staged in {self.file}: {error}",
                Diagnosis(side="target"),
            ) from error
        self._rows += block.num_rows

    def _check_finite(self, batch: pa.RecordBatch) -> None:
        """
        Raises:
            PermanentError: DuckDB would take a finite value for an infinite one.
        """
        for name, array in zip(batch.schema.names, batch.columns, strict=True):
            infinite = first_infinite(array)
            if infinite is not None:
                row, found = infinite
                raise PermanentError(
                    f"{self._subject}: column {name!r}, row {self._rows + row + 1:,}: expected a "
                    f"{found.kind} that DuckDB holds, found {shown(array, row)}",
                    Diagnosis(side="target"),
                )

    def end(self, wait: Wait) -> int:
        assert self._writer is not None
        self._writer.close()
        self._sink.close()
        return self._rows

    def check_held(self) -> None:
        if not is_at(self._descriptor, self.file):
            raise attempt_ended(self._attempt)

    def batches(self) -> pa.RecordBatchReader:
        """
        Raises:
            TransientError: as `check_held`.
        """
        try:
            return pa.ipc.open_stream(pa.OSFile(self.file, "rb"))
        except FileNotFoundError:
            raise attempt_ended(self._attempt) from None

    def remove(self) -> None:
        with suppress(OSError, pa.ArrowInvalid):
            if self._sink is not None:
                self._sink.close()
        with suppress(OSError):
            if is_at(self._descriptor, self.file):
                os.unlink(self.file)
        with suppress(OSError):
            os.close(self._descriptor)
