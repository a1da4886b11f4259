"""A partition's rows as record batches: in a thread, one batch ahead.

Drivers look at no signal while they wait for a server, and a worker that waits for the thread
notices stalls and cancellations.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator

import pyarrow as pa

from penstock.backends.api.worker import Block, Wait
from penstock.backends.shared.background import Ahead
from penstock.model.plans import Partition
from penstock.spec.worker_spec import WorkerSpec


class BatchReader(ABC):
    """What readers of this kind share; see `Reader`."""

    def __init__(self, spec: WorkerSpec) -> None:
        self._spec = spec
        self._ahead: Ahead[pa.RecordBatch] | None = None
        self.rows = 0

    def label(self, application_name: str) -> None:  # noqa: B027 - to be overridden by some
        """Nobody shows it, or the driver names its sessions itself."""

    def read(self, partition: Partition, wait: Wait) -> Iterator[tuple[Block, int, int]]:
        self.rows = 0
        # It asks whether this very stream was stopped: the one before it always was.
        self._ahead = Ahead(lambda stopped: self.batches(partition, stopped))
        for batch in self._ahead.take(wait):
            self.rows += batch.num_rows
            yield batch, batch.num_rows, batch.nbytes
            del batch

    @abstractmethod
    def batches(
        self, partition: Partition, stopped: Callable[[], bool]
    ) -> Iterator[pa.RecordBatch]:
        """In the thread.

        Parameters:
            stopped: whether nobody takes them any more.
        """
