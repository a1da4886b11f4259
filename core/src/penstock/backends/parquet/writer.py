"""Record batches written to Parquet files, which a commit record makes a partition's."""

from __future__ import annotations

import pyarrow as pa

from penstock.backends.api.execution.attempt import Attempt, Standing
from penstock.backends.api.execution.roll_forward import Piece
from penstock.backends.api.worker import Block, RowsBlock, Wait
from penstock.backends.parquet.load.fence import Fence
from penstock.backends.parquet.load.file_format import FileFormat
from penstock.backends.parquet.load.names import new_nonce
from penstock.backends.parquet.load.output import Naming, Output
from penstock.backends.parquet.storage.documents import CachedDocuments
from penstock.backends.parquet.storage.storage import Storage, open_storage
from penstock.backends.parquet.storage.uploads import Uploads
from penstock.backends.roll_forward.runs import Runs
from penstock.backends.roll_forward.writer import RollForwardWriter
from penstock.backends.shared.attempts.transfer import Transfer
from penstock.backends.shared.values.arrow import Caster, schema_from_text
from penstock.spec.worker_spec import WorkerSpec


def parquet_writer(spec: WorkerSpec) -> RollForwardWriter:
    """Return a worker's writer of Parquet files."""
    return RollForwardWriter(spec, ParquetHooks())


class ParquetHooks:
    """See `RollForwardHooks`."""

    def __init__(self) -> None:
        self._storage: Storage | None = None

    def connect(self, spec: WorkerSpec) -> None:
        if self._storage is None:
            self._storage = self.storage(spec)

    def storage(self, spec: WorkerSpec) -> Storage:
        return open_storage(spec.target, spec.control_schema)

    def disconnect(self) -> None:
        self._storage = None

    @property
    def _open(self) -> Storage:
        assert self._storage is not None
        return self._storage

    def documents(self) -> CachedDocuments:
        return self._open.documents

    def store(self) -> Uploads:
        return self._open.uploads

    def standing(self, attempt: Attempt) -> Standing:
        runs = Runs(self._open.documents, self._open.uploads)
        run = runs.find(attempt.spec.run_id)
        if run is None:
            return Standing(None, committed=False)
        Fence(self._open, runs).check_open(attempt.spec.run_id, run)
        return Standing(run.generation, committed=False)

    def open_stream(self, attempt: Attempt, wait: Wait) -> FilesStream:
        return FilesStream(self._open.uploads, attempt, self._open.format)


class FilesStream:
    """See `PieceStream`."""

    def __init__(self, uploads: Uploads, attempt: Attempt, format: FileFormat) -> None:
        spec, partition_id = attempt.spec, attempt.partition.id
        self._schema = schema_from_text(spec.schema)
        self._caster = Caster(self._schema, f"partition {partition_id}")
        self._transfer = Transfer()
        naming = Naming(
            spec.run_id, partition_id, attempt.number, new_nonce(spec.run_id), format.suffix
        )
        self._output = Output(uploads, self._transfer, self._schema, spec.writing, naming, format)
        self.fileno = self._transfer.fileno
        self.check = self._transfer.check
        self.close = self._transfer.close

    def write(self, block: Block, wait: Wait) -> None:
        if isinstance(block, RowsBlock):
            self._output.write_content(*block, wait)
            return
        self._output.write(self._caster.cast(self._arranged(block)), wait)

    def _arranged(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch with columns in the dataset's order, and NULL for those not copied."""
        names = set(batch.schema.names)
        arrays = [
            batch.column(field.name) if field.name in names else pa.nulls(len(batch), field.type)
            for field in self._schema
        ]
        return pa.RecordBatch.from_arrays(arrays, names=self._schema.names)

    def end(self, wait: Wait) -> int:
        self._output.end(wait)
        self._transfer.finish(wait)
        return self._output.rows

    def pieces(self) -> tuple[Piece, ...]:
        return self._output.pieces()
