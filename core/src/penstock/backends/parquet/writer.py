"""Record batches into Parquet files, which a commit record makes those of a partition."""

from __future__ import annotations

import threading
from contextlib import suppress
from secrets import token_hex

import pyarrow as pa

from penstock.backends.api.worker import Block, Loaded, Wait
from penstock.backends.parquet.load.fence import Fence
from penstock.backends.parquet.load.names import new_nonce
from penstock.backends.parquet.load.output import Naming, Output
from penstock.backends.parquet.records import series
from penstock.backends.parquet.records.records import Record, Records, now
from penstock.backends.parquet.records.runs import Runs
from penstock.backends.parquet.storage.storage import Storage, open_storage
from penstock.backends.parquet.storage.transfer import Transfer
from penstock.backends.shared.arrow import Caster, schema_from_text
from penstock.errors import Diagnosis, PenstockError, PermanentError, TransientError
from penstock.model.plans import Partition
from penstock.spec.worker_spec import WorkerSpec

# What an attempt that failed leaves behind is removed within this, or by the run's last step.
DISCARD_SECONDS = 2.0


class ParquetWriter:
    def __init__(self, spec: WorkerSpec) -> None:
        self._spec = spec
        self._storage: Storage | None = None
        self._output: Output | None = None
        self._transfer: Transfer | None = None

    def turn(self, spec: WorkerSpec) -> None:
        if (spec.target, spec.control_schema) != (self._spec.target, self._spec.control_schema):
            self._storage = None
        self._spec = spec

    def begin(self, partition: Partition, attempt: int, wait: Wait) -> bool:
        """Nobody is waited for: of several attempts the first to commit wins, and the others find
        its record."""
        spec = self._spec
        with wait.answering("target"):
            if self._storage is None:
                self._storage = open_storage(spec.target, spec.control_schema)
            records = Records(self._storage, spec.run_id)
            found, version = records.read(spec.generation, partition.id)
            if found is not None and found.committed:
                found = records.publish(spec.generation, partition.id, found, version)
                if found.committed:
                    return False
            # After the record was looked at: a generation that has ended since changes the record.
            self._check_run(found)
            if spec.series:
                series.claim(self._storage, spec.series, spec.run_id, spec.generation, partition.id)
        self._partition = partition
        self._before, self._version = found or Record(""), version
        self._attempt = attempt
        self._started_at = now()
        schema = schema_from_text(spec.schema)
        self._schema = schema
        self._caster = Caster(schema, f"partition {partition.id}")
        self._transfer = Transfer()
        naming = Naming(spec.run_id, partition.id, attempt, new_nonce(spec.run_id))
        self._output = Output(self._storage.uploads, self._transfer, schema, spec.writing, naming)
        return True

    def _check_run(self, found: Record | None) -> None:
        """
        Raises:
            PermanentError: the run has begun another generation.
            TargetChanged: see `ControlStore.check_target`.
        """
        assert self._storage is not None
        runs = Runs(self._storage)
        state = runs.state(self._spec.run_id)
        if state is not None:
            Fence(self._storage, runs).check_open(self._spec.run_id, state)
        generation = state["generation"] if state else "no such run"
        if generation != self._spec.generation or (found is not None and found.closed):
            raise PermanentError(
                f"target: another process has started run {self._spec.run_id} over: expected "
                f"generation {self._spec.generation}, found {generation}",
                Diagnosis(side="target"),
            )

    @property
    def _open(self) -> tuple[Storage, Output, Transfer]:
        assert self._storage is not None
        assert self._output is not None
        assert self._transfer is not None
        return self._storage, self._output, self._transfer

    def fileno(self) -> int:
        return self._open[2].fileno()

    def check(self) -> None:
        self._open[2].check()

    def write(self, block: Block, wait: Wait) -> None:
        rows = self._caster.cast(self._arranged(block))
        self._open[1].write(rows, wait)

    def _arranged(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """With the columns in the dataset's order; NULL where it has one that is not copied."""
        given = set(batch.schema.names)
        arrays = [
            batch.column(field.name) if field.name in given else pa.nulls(len(batch), field.type)
            for field in self._schema
        ]
        return pa.RecordBatch.from_arrays(arrays, names=self._schema.names)

    def end(self, wait: Wait) -> Loaded:
        _, output, transfer = self._open
        output.end(wait)
        transfer.finish(wait)
        return Loaded(output.rows)

    def commit(self, loaded: Loaded, bytes: int, wait: Wait) -> None:
        storage, output, _ = self._open
        partition_id, generation = self._partition.id, self._spec.generation
        records = Records(storage, self._spec.run_id)
        record = Record(
            nonce=token_hex(8),
            committed=True,
            attempt=self._attempt,
            rows=loaded.rows,
            bytes=bytes,
            started_at=self._started_at,
            committed_at=now(),
            files=output.files(),
            remove=self._before.remove,
            requests=self._before.requests,
            read_at=self._spec.read_at,
        )
        # From here on the record may be there, whatever is heard of it: nothing is discarded.
        self._output = None
        with wait.answering("target"):
            written = records.write(generation, partition_id, record, self._version)
            found, version = records.read(generation, partition_id)
            # A request that is repeated, since its answer was lost, may meet the record that it has
            # written itself, and that somebody has published since.
            if not written and (found is None or found.nonce != record.nonce):
                self._output = output
                raise TransientError(
                    f"target: the commit record of partition {partition_id} was written by "
                    "somebody else since this attempt began: expected that it is alone",
                    Diagnosis(side="target"),
                )
            if found is not None:
                records.publish(generation, partition_id, found, version)
        self._close()

    def abandon(self) -> None:
        output, storage = self._output, self._storage
        self._output = self._storage = None
        self._close()
        if output is None or storage is None or not output.begun():
            return

        def discard() -> None:
            with suppress(PenstockError):  # else the run's last step does it
                storage.uploads.discard(output.begun())

        thread = threading.Thread(target=discard, daemon=True)
        thread.start()
        thread.join(DISCARD_SECONDS)

    def _close(self) -> None:
        transfer, self._transfer = self._transfer, None
        if transfer is not None:
            transfer.close()
