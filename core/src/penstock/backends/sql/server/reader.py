"""A partition's rows as record batches, from one query on a server."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Generic, TypeVar

from penstock.backends.shared.values.batch_reader import BatchReader
from penstock.backends.shared.values.planned_types import PromisedTypes
from penstock.backends.shared.values.type_table import TypeTable
from penstock.backends.sql.rows.computed_columns import computed_rows
from penstock.backends.sql.rows.conditions import condition
from penstock.backends.sql.server.session import InterruptibleSession
from penstock.model.plans import Partition
from penstock.spec.worker_spec import WorkerSpec

S = TypeVar("S", bound=InterruptibleSession)
BATCH_ROWS = 16_384


class BatchQueryReader(BatchReader, Generic[S]):
    """A reader that runs one query per partition and converts its result to the planned types."""

    types: ClassVar[TypeTable[Any]]

    def __init__(self, spec: WorkerSpec) -> None:
        super().__init__(spec)
        self._session: S | None = None
        self._source_types: list[Any] = []
        """The types of the columns that are read."""

    # For subclasses

    @abstractmethod
    def connect(self) -> S:
        """Open a session in the source that reads as of the spec's snapshot."""

    @abstractmethod
    def fetch_batches(self, session: S, query: str, promised: PromisedTypes[Any]) -> Iterator[Any]:
        """Yield the rows of a query as the driver's record batches.

        The first one comes even if it has no rows.

        Args:
            session: the session with the database.
            query: the query.
            promised: the types that the plan expects.
        """

    def selection(self, session: S, partition: Partition) -> tuple[str, str]:
        """Return an item of FROM with a partition's rows, and the condition that selects them."""
        spec = self._spec
        tested = condition(session.dialect, spec.where, partition.extent)
        return session.rows_of(spec.relation), tested

    def travelling(self, session: S, value: str, type_: Any) -> str:
        """Return an expression whose value the driver can put into a record batch.

        Args:
            session: the session with the database.
            value: the value, as an expression.
            type_: the type, as the session describes it.
        """
        return self.types.travelling(value, type_)

    # The same for all

    def switch_run(self, spec: WorkerSpec) -> None:
        if spec.snapshot != self._spec.snapshot:
            self.abandon()
        self._spec = spec
        self._source_types = []

    def batches(self, partition: Partition, stopped: Callable[[], bool]) -> Iterator[Any]:
        spec, subject = self._spec, f"partition {partition.id}"
        if self._session is None:
            self._session = self.connect()
        session = self._session
        with session.translated(subject):
            session.hold(spec.session_values)
            rows, tested = self.selection(session, partition)
            rows, tested = computed_rows(session.dialect, rows, tested, spec.pairs)
            names = [session.dialect.ident(pair.source) for pair in spec.pairs]
            if not self._source_types:
                query = f"SELECT {', '.join(names)} FROM {rows}"
                self._source_types = [type_ for _, type_ in session.describe(query, subject)]
            listed = [
                self.travelling(session, name, type_)
                for name, type_ in zip(names, self._source_types, strict=True)
            ]
            finer = list(filter(None, map(self.types.finer, names, self._source_types)))
            if finer:
                listed.append(f"CASE WHEN {' OR '.join(finer)} THEN 1 ELSE 0 END")
            query = f"SELECT {', '.join(listed) or '1'} FROM {rows} WHERE {tested}"
            promised = PromisedTypes(
                [pair.target for pair in spec.pairs],
                self._source_types,
                self.types,
                f"source: {spec.relation}, {subject}",
            )
            for batch in self.fetch_batches(session, query, promised):
                yield promised.as_travels(batch)
                if stopped():
                    return

    def abandon(self) -> None:
        ahead, self._ahead = self._ahead, None
        session, self._session = self._session, None
        if session is not None:
            if ahead is not None:
                ahead.leave(session.connection.interrupt)
            session.connection.close()
