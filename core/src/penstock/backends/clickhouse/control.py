"""The control store of a ClickHouse target: its documents, in tables of the control database."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from penstock.backends.clickhouse.load.documents import TableDocuments
from penstock.backends.clickhouse.load.stages import Stages
from penstock.backends.clickhouse.load.tables import check_database
from penstock.backends.clickhouse.load_hooks import ClickHouseLoadHooks
from penstock.backends.clickhouse.session import ClickHouseSession
from penstock.backends.roll_forward.run_store import DocumentStore
from penstock.backends.roll_forward.runs import Runs
from penstock.backends.roll_forward.turns import Turns
from penstock.backends.shared.attempts.refusals import as_planning
from penstock.backends.shared.attempts.run_presence import RunPresence
from penstock.backends.shared.records.control_store import RecordedRuns
from penstock.backends.shared.records.ledger import Ledger
from penstock.errors import PenstockError
from penstock.model.tables import TableRef


class _Store(DocumentStore):
    def __init__(
        self, session: ClickHouseSession, database: str, documents: TableDocuments, runs: Runs
    ) -> None:
        super().__init__(documents, runs)
        self._session = session
        self._database = database

    def create(self) -> None:
        name = self._session.dialect.ident(self._database)
        check_database(self._session, self._database, may_lack=True)
        with as_planning():
            self._session.run(f"CREATE DATABASE IF NOT EXISTS {name} ENGINE = Atomic")


class ClickHousePresence(RunPresence):
    """See `RunPresence`: the server has no locks, so turns are leases."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns

    def enter(
        self, tables: Mapping[str, TableRef], check: Callable[[str, Sequence[str]], None]
    ) -> dict[str, PenstockError]:
        """Do nothing.

        No lock on the server ends with a process, so the checks of the runs themselves have to be
        enough.
        """
        return {}

    def leave(self, tables: Mapping[str, TableRef]) -> None:
        self._turns.leave(tables)

    def take_turns(self, names: Sequence[str]) -> frozenset[str]:
        return self._turns.take(names)

    def end_turns(self, names: Sequence[str]) -> None:
        self._turns.end(names)

    def close(self) -> None:
        """Give back the turns."""
        self._turns.close()


def clickhouse_control(
    session: ClickHouseSession, database: str
) -> tuple[RecordedRuns, ClickHousePresence]:
    """Return the control store of a target, and its part that is to be closed.

    Args:
        session: a session on the target.
        database: the control database.
    """
    documents = TableDocuments(session.connection, database)
    stages = Stages(session.connection, database)
    runs = Runs(documents, stages)
    store = _Store(session, database, documents, runs)
    presence = ClickHousePresence(Turns(documents, store))
    ledger = Ledger(store)
    hooks = ClickHouseLoadHooks(ledger, session, database, documents, stages, runs)
    return RecordedRuns(ledger, hooks, presence), presence
