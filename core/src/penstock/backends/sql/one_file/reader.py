"""A partition's rows as record batches, read by a thread one batch ahead.

A database that computes in this process does not notice signals.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Generic, TypeVar

from penstock.backends.api.worker import Block, Wait
from penstock.backends.shared.background import BufferedIterator, computing
from penstock.backends.sql.one_file.session import DriverSession
from penstock.model.plans import Partition
from penstock.spec.worker_spec import WorkerSpec

S = TypeVar("S", bound=DriverSession)


class FileReader(ABC, Generic[S]):
    """A reader of a database file.

    Args:
        path: None for a database in memory.
    """

    rows = 0

    def __init__(self, path: str | None, spec: WorkerSpec) -> None:
        self.path = path
        self.spec = spec
        self._session: S | None = None
        self._ahead: BufferedIterator[Any] | None = None

    @abstractmethod
    def connect(self) -> S:
        """Open the source.

        Raises:
            SnapshotLost: the file no longer matches the spec's snapshot.
        """

    @abstractmethod
    def batches(self, session: S, partition: Partition) -> Iterator[Any]:
        """Yield the partition's rows. Called in the thread."""

    def switch_run(self, spec: WorkerSpec) -> None:
        if spec.snapshot != self.spec.snapshot:
            self.abandon()
        self.spec = spec

    def label(self, application_name: str) -> None:
        """Do nothing: there is no server to show a name."""

    def read(self, partition: Partition, wait: Wait) -> Iterator[tuple[Block, int, int]]:
        if self._session is None:
            self._session = self.connect()
        session, self.rows = self._session, 0
        self._ahead = BufferedIterator(lambda _: self.batches(session, partition))
        for batch in self._ahead.take(computing(wait)):
            self.rows += batch.num_rows
            yield batch, batch.num_rows, batch.nbytes
            del batch
        if self.spec.snapshot is None:
            self.abandon()  # other processes can now write to the file

    def abandon(self) -> None:
        """Close everything.

        A database that is reopened in the same process may wait for remains of a closed session to
        disappear (measured).
        """
        ahead, self._ahead = self._ahead, None
        session, self._session = self._session, None
        if session is not None:
            if ahead is not None:
                ahead.leave(session.connection.interrupt)
            session.close()
