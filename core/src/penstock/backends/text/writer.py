"""Record batches written to text files, which a commit record makes a partition's."""

from __future__ import annotations

from penstock.backends.parquet.storage.storage import Storage
from penstock.backends.parquet.writer import ParquetHooks
from penstock.backends.roll_forward.writer import RollForwardWriter
from penstock.backends.text.load.storage import open_text_storage
from penstock.spec.worker_spec import WorkerSpec


def text_writer(spec: WorkerSpec) -> RollForwardWriter:
    """Return a worker's writer of text files."""
    return RollForwardWriter(spec, TextHooks())


class TextHooks(ParquetHooks):
    """See `RollForwardHooks`."""

    def storage(self, spec: WorkerSpec) -> Storage:
        return open_text_storage(spec.target, spec.control_schema)
