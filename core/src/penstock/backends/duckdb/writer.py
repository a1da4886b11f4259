"""A partition is staged beside the database, then loaded in one transaction with its record.

Many partitions are staged at once; loading takes turns. The stage is an Arrow stream, locked by the
attempt that writes it.
"""

from __future__ import annotations

import os
import secrets
import time
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from typing import Any

import duckdb
import pyarrow as pa
from duckdb import DuckDBPyConnection

from penstock.backends.api.worker import Block, Loaded, Wait
from penstock.backends.duckdb.connection import catalog_name, interrupting
from penstock.backends.duckdb.database import Database
from penstock.backends.duckdb.dialect import condition, ident
from penstock.backends.duckdb.errors import translated
from penstock.backends.duckdb.load.fitting import staged_type
from penstock.backends.duckdb.load.folder import (
    POLL,
    create,
    folder_of,
    stage_name,
    staged,
    sweep,
)
from penstock.backends.duckdb.load.infinite import Infinite, check_finite
from penstock.backends.duckdb.load.loading import Loading
from penstock.backends.duckdb.location import path_of
from penstock.backends.shared.arrow import Caster, first_failing, schema_from_text, shown
from penstock.backends.shared.background import compute
from penstock.backends.shared.presence import is_at, try_lock
from penstock.errors import Diagnosis, PermanentError, TransientError
from penstock.model.plans import Partition
from penstock.spec.worker_spec import WorkerSpec


class DuckWriter:
    def __init__(self, spec: WorkerSpec) -> None:
        path = path_of(spec.target)
        assert path is not None
        self._spec = spec
        self._path = path
        self._database = Database(path, spec.stall_timeout)
        self._stage: _Stage | None = None
        self._partition: Partition | None = None
        self._attempt = 0
        self._started = datetime.now(UTC)
        self._open = ExitStack()
        self._connection: DuckDBPyConnection | None = None
        pa.set_cpu_count(1)

    def turn(self, spec: WorkerSpec) -> None:
        self._spec = spec

    def begin(self, partition: Partition, attempt: int, wait: Wait) -> bool:
        self._partition, self._attempt = partition, attempt
        self._started = datetime.now(UTC)
        self._wait_for_older(partition, wait)
        sweep(self._path)
        if compute(self._is_committed, "target", wait, self._database.interrupt):
            return False
        self._stage = _Stage(self._path, self._spec, partition, attempt)
        return True

    def _wait_for_older(self, partition: Partition, wait: Wait) -> None:
        """Wait for an older attempt while it makes progress; then its stage is taken away.

        It belongs to a worker that was stopped or cut off, which finds that out when it goes on.
        """
        seen: dict[str, tuple[int, float]] = {}
        while True:
            older = [
                each
                for each in staged(self._path)
                if (each.run_id, each.partition_id) == (self._spec.run_id, partition.id)
                and each.is_alive()
            ]
            if not older:
                return
            now = time.monotonic()
            for each in older:
                size = each.bytes
                if each.file not in seen or seen[each.file][0] != size:
                    seen[each.file] = (size, now)
                elif now - seen[each.file][1] >= self._spec.grace:
                    with suppress(FileNotFoundError):
                        os.unlink(each.file)
            time.sleep(POLL)

    def _is_committed(self) -> bool:
        """
        Raises:
            PermanentError: the run was started over, another run of the series has committed the
                partition, or the table was changed by somebody else.
        """
        with translated("target"), self._database.reading() as connection:
            loading = self._loading(connection)
            if loading.is_committed():
                return True
            loading.check_table()
            return False

    def _loading(self, connection: DuckDBPyConnection) -> Loading:
        assert self._partition is not None
        catalog = catalog_name(connection, "target")
        return Loading(
            connection,
            self._spec,
            self._partition.id,
            f"{ident(catalog)}.{ident(self._spec.control_schema)}",
            catalog,
        )

    def fileno(self) -> int:
        return -1

    def check(self) -> None:
        """There is no server that could say anything."""

    def write(self, block: Block, wait: Wait) -> None:
        assert self._stage is not None
        self._stage.write(block)

    def end(self, wait: Wait) -> Loaded:
        """Load what is staged; the database stays open until the commit."""
        assert self._stage is not None
        self._stage.close()
        return compute(self._load, "target", wait, self._database.interrupt)

    def _load(self) -> Loaded:
        stage, partition = self._stage, self._partition
        assert stage is not None
        assert partition is not None
        with translated("target", f"partition {partition.id}"), ExitStack() as stack:
            connection = stack.enter_context(self._database.writing(worker=True))
            loading = self._loading(connection)
            connection.execute("BEGIN")
            if loading.is_committed():
                raise TransientError(
                    f"target: partition {partition.id} was committed by another attempt meanwhile",
                    Diagnosis(side="target"),
                )
            stage.check()
            loading.begin()
            if self._spec.load_mode.deletes_by_partition:
                loaded = loading.replace(stage, condition(self._spec.where, partition.extent))
            elif self._spec.load_mode.merges_by_key:
                loaded = loading.upsert(stage)
            else:
                loaded = loading.insert(stage)
            self._open = stack.pop_all()
            self._connection = connection
        return loaded

    def commit(self, loaded: Loaded, bytes: int, wait: Wait) -> None:
        connection = self._connection
        assert connection is not None

        def call() -> None:
            with translated("target"):
                self._loading(connection).record(self._attempt, self._started, loaded, bytes)
                connection.execute("COMMIT")
                self._close()

        compute(call, "target", wait, interrupting(connection))
        self._drop_stage()

    def _close(self) -> None:
        self._connection = None
        self._open.close()

    def _drop_stage(self) -> None:
        if self._stage is not None:
            stage, self._stage = self._stage, None
            stage.remove()

    def abandon(self) -> None:
        self._database.interrupt()
        with suppress(duckdb.Error):
            self._close()  # without a commit nothing of it stays
        self._drop_stage()


class _Stage:
    """The file that an attempt's rows are staged in."""

    def __init__(self, path: str, spec: WorkerSpec, partition: Partition, attempt: int) -> None:
        name = stage_name(spec.run_id, partition.id, attempt, secrets.token_hex(4))
        self.file = os.path.join(folder_of(path), name)
        self._subject = f"target: partition {partition.id}"
        self._wanted = schema_from_text(spec.schema)
        self._descriptor = self._locked(path, name)
        self._sink: Any = None
        self._writer: Any = None
        self._caster: Caster | None = None
        self.rows = 0

    def _locked(self, path: str, name: str) -> int:
        while True:
            descriptor = create(path, name)
            # Who sweeps at this moment finds it unlocked, and may remove it.
            if try_lock(descriptor) and is_at(descriptor, self.file):
                return descriptor
            os.close(descriptor)

    def write(self, batch: pa.RecordBatch) -> None:
        """
        Raises:
            PermanentError: a value does not fit, or the folder has no room left.
        """
        if self._caster is None:
            schema = pa.schema(
                pa.field(field.name, staged_type(mine.type, field.type), field.nullable)
                for mine, field in zip(batch.schema, self._wanted, strict=True)
            )
            self._caster = Caster(schema, self._subject)
            self._sink = os.fdopen(os.dup(self._descriptor), "wb")
            options = pa.ipc.IpcWriteOptions(compression="lz4")
            self._writer = pa.ipc.new_stream(self._sink, schema, options=options)
        cast = self._caster.cast(batch)
        self._check(cast)
        try:
            self._writer.write_batch(cast)
        except OSError as error:
            raise PermanentError(
                f"{self._subject}: cannot be staged in {self.file}: {error}",
                Diagnosis(side="target"),
            ) from error
        self.rows += batch.num_rows

    def _check(self, batch: pa.RecordBatch) -> None:
        """
        Raises:
            PermanentError: DuckDB would take a finite value for an infinite one.
        """
        for name, array in zip(batch.schema.names, batch.columns, strict=True):
            try:
                check_finite(array)
            except Infinite as found:
                row = first_failing(array, check_finite)
                raise PermanentError(
                    f"{self._subject}: column {name!r}, row {self.rows + row + 1:,}: expected a "
                    f"{found.kind} that DuckDB holds, found {shown(array, row)}",
                    Diagnosis(side="target"),
                ) from found

    def close(self) -> None:
        """End the file."""
        assert self._writer is not None
        self._writer.close()
        self._sink.close()

    def check(self) -> None:
        """
        Raises:
            TransientError: a newer attempt has taken it away.
        """
        if not is_at(self._descriptor, self.file):
            raise self._taken()

    def _taken(self) -> TransientError:
        return TransientError(
            f"{self._subject}: this attempt made no progress for the grace time, and a newer "
            "one has taken its place",
            Diagnosis(side="target"),
        )

    def batches(self) -> pa.RecordBatchReader:
        """
        Raises:
            TransientError: as `check`.
        """
        try:
            return pa.ipc.open_stream(pa.OSFile(self.file, "rb"))
        except FileNotFoundError:
            raise self._taken() from None

    def remove(self) -> None:
        with suppress(OSError, pa.ArrowInvalid):
            if self._sink is not None:
                self._sink.close()
        with suppress(OSError):
            if is_at(self._descriptor, self.file):
                os.unlink(self.file)
        with suppress(OSError):
            os.close(self._descriptor)
