"""A partition's rows as record batches: in a thread, one batch ahead.

A database that computes in this process looks at no signal meanwhile.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Generic, TypeVar

from penstock.backends.api.worker import Block, Wait
from penstock.backends.shared.background import Ahead, computing
from penstock.backends.sql.one_file.session import DriverSession
from penstock.model.plans import Partition
from penstock.spec.worker_spec import WorkerSpec

S = TypeVar("S", bound=DriverSession)


class FileReader(ABC, Generic[S]):
    """
    Parameters:
        path: None for a database in memory.
    """

    rows = 0

    def __init__(self, path: str | None, spec: WorkerSpec) -> None:
        self.path = path
        self.spec = spec
        self._session: S | None = None
        self._ahead: Ahead[Any] | None = None

    @abstractmethod
    def connect(self) -> S:
        """
        Raises:
            SnapshotLost: the file is not what the spec's snapshot says.
        """

    @abstractmethod
    def batches(self, session: S, partition: Partition) -> Iterator[Any]:
        """The partition's rows. Called in the thread."""

    def switch_run(self, spec: WorkerSpec) -> None:
        if spec.snapshot != self.spec.snapshot:
            self.abandon()
        self.spec = spec

    def label(self, application_name: str) -> None:
        """Nobody watches a file."""

    def read(self, partition: Partition, wait: Wait) -> Iterator[tuple[Block, int, int]]:
        if self._session is None:
            self._session = self.connect()
        session, self.rows = self._session, 0
        self._ahead = Ahead(lambda _: self.batches(session, partition))
        for batch in self._ahead.take(computing(wait)):
            self.rows += batch.num_rows
            yield batch, batch.num_rows, batch.nbytes
            del batch
        if self.spec.snapshot is None:
            self.abandon()  # others may write to the file now

    def abandon(self) -> None:
        """Leaves nothing open: a database that is opened again, in the same process, while anything
        of a closed session of it is left, may wait for that to go (measured)."""
        ahead, self._ahead = self._ahead, None
        session, self._session = self._session, None
        if session is not None:
            if ahead is not None:
                ahead.leave(session.connection.interrupt)
            session.close()
