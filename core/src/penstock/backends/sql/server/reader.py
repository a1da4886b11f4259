"""A partition's rows as record batches: in a thread, one batch ahead.

For drivers that look at no signal while they wait for the server.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, Protocol, TypeVar

from penstock.backends.api.worker import Block, Wait
from penstock.backends.shared.background import Ahead
from penstock.backends.sql.conditions import condition
from penstock.backends.sql.server.session import ServerSession
from penstock.model.plans import Partition
from penstock.spec.worker_spec import WorkerSpec


class ReadConnection(Protocol):
    def interrupt(self) -> None: ...

    def close(self) -> None: ...


class Travels(Protocol):
    def as_travels(self, batch: Any) -> Any: ...


S = TypeVar("S", bound=ServerSession)
P = TypeVar("P", bound=Travels)


class ServerReader(ABC, Generic[S, P]):
    """See `Reader`."""

    rows = 0

    def __init__(self, spec: WorkerSpec) -> None:
        self._spec = spec
        self._session: S | None = None
        self._types: list[Any] = []
        self._ahead: Ahead[Any] | None = None

    # For subclasses

    @abstractmethod
    def connected(self) -> S:
        """A session that reads as of the run's snapshot."""

    @abstractmethod
    def connection(self, session: S) -> ReadConnection: ...

    @abstractmethod
    def travelling(self, session: S, name: str, type_: Any) -> str:
        """What is selected of a column, so that the driver has a value that can be in a batch."""

    @abstractmethod
    def finer(self, name: str, type_: Any) -> str:
        """A test for a time that would lose something without a word; empty where none can."""

    @abstractmethod
    def passing(
        self, names: Sequence[str], types: Sequence[Any], fine: Sequence[str], subject: str
    ) -> P:
        """What makes batches travel: see `penstock.backends.shared.passing`."""

    @abstractmethod
    def batches(self, session: S, query: str, passing: P) -> Iterator[Any]:
        """The rows of a query, as the driver has them; the first one comes even without rows."""

    def rows_of(self, session: S, partition: Partition) -> str:
        """An item of FROM."""
        return session.rows_of(self._spec.relation)

    def chosen(self, session: S, partition: Partition) -> str:
        return condition(session.dialect, self._spec.where, partition.extent)

    # As a reader

    def switch_run(self, spec: WorkerSpec) -> None:
        if spec.snapshot != self._spec.snapshot:
            self.abandon()
        self._spec = spec
        self._types = []

    def label(self, application_name: str) -> None:
        """The driver names its sessions itself."""

    def read(self, partition: Partition, wait: Wait) -> Iterator[tuple[Block, int, int]]:
        self.rows = 0
        self._ahead = Ahead(lambda stopped: self._batches(partition, stopped))
        for batch in self._ahead.take(wait):
            self.rows += batch.num_rows
            yield batch, batch.num_rows, batch.nbytes
            del batch

    def _batches(self, partition: Partition, stopped: Callable[[], bool]) -> Iterator[Any]:
        spec, subject = self._spec, f"partition {partition.id}"
        if self._session is None:
            self._session = self.connected()
        session = self._session
        with session.translated(subject):
            rows = self.rows_of(session, partition)
            names = [session.dialect.ident(pair.source) for pair in spec.pairs]
            if not self._types:
                query = f"SELECT {', '.join(names)} FROM {rows}"
                self._types = [type_ for _, type_ in session.describe(query, subject)]
            types = self._types
            listed = [self.travelling(session, n, t) for n, t in zip(names, types, strict=True)]
            targets = [pair.target for pair in spec.pairs]
            tests = [self.finer(n, t) for n, t in zip(names, types, strict=True)]
            fine = [name for name, test in zip(targets, tests, strict=True) if test]
            if fine:
                listed.append(f"CASE WHEN {' OR '.join(filter(None, tests))} THEN 1 ELSE 0 END")
            passing = self.passing(targets, types, fine, f"source: {spec.relation}, {subject}")
            query = (
                f"SELECT {', '.join(listed) or '1'} FROM {rows}"
                f" WHERE {self.chosen(session, partition)}"
            )
            for batch in self.batches(session, query, passing):
                yield passing.as_travels(batch)
                if stopped():
                    return

    def abandon(self) -> None:
        ahead, self._ahead = self._ahead, None
        session, self._session = self._session, None
        if session is not None:
            connection = self.connection(session)
            if ahead is not None:
                ahead.leave(connection.interrupt)
            connection.close()
