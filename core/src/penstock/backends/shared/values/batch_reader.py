"""A partition's rows as record batches, read by a thread one batch ahead.

Drivers do not notice signals while they wait for a server. A worker that waits for the thread
notices stalls and cancellations.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator

import pyarrow as pa

from penstock.backends.api.worker import Block, Wait
from penstock.backends.shared.background import BufferedIterator
from penstock.model.plans import Partition
from penstock.spec.worker_spec import WorkerSpec


class BatchReader(ABC):
    """The shared part of such readers; see `Reader`."""

    def __init__(self, spec: WorkerSpec) -> None:
        self._spec = spec
        self._ahead: BufferedIterator[pa.RecordBatch] | None = None
        self.rows = 0

    def label(self, application_name: str) -> None:  # noqa: B027 - to be overridden by some
        """Do nothing: no server shows it, or the driver names its sessions itself."""

    def read(self, partition: Partition, wait: Wait) -> Iterator[tuple[Block, int, int]]:
        self.rows = 0
        # It asks whether this stream was stopped; the previous one always was.
        self._ahead = BufferedIterator(lambda stopped: self.batches(partition, stopped))
        for batch in self._ahead.take(wait):
            self.rows += batch.num_rows
            yield batch, batch.num_rows, batch.nbytes
            del batch

    @abstractmethod
    def batches(
        self, partition: Partition, stopped: Callable[[], bool]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the partition's batches, in the thread.

        Args:
            partition: the partition.
            stopped: whether they are no longer needed.
        """
