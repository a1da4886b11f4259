"""The target's tables, and the control store beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace

from penstock.backends.api.control import RunningAttempt
from penstock.backends.api.facts import Fit, LoadRequest
from penstock.backends.api.worker import ARROW
from penstock.backends.shared import database_file
from penstock.backends.shared.arrow import arrow_type, schema_of, schema_to_text
from penstock.backends.shared.fitting import fit_types
from penstock.backends.shared.presence import Presence
from penstock.backends.sql.load_plan import plan_load
from penstock.backends.sql.loaded_runs import LoadedRuns
from penstock.backends.sql.relations import read_columns
from penstock.backends.sql.session import Session
from penstock.backends.sql.target import SqlTarget
from penstock.backends.sql.unique_keys import UniqueKey
from penstock.errors import PlanningError
from penstock.model.plans import LoadPlan
from penstock.model.tables import Column, TableDefinition, TableRef

from . import TARGET
from .records import SqliteRecords
from .session import SqliteSession, connect
from .source import with_arrow


class SqliteRuns(LoadedRuns):
    def __init__(self, path: str, schema: str) -> None:
        super().__init__(SqliteRecords(path, schema))
        self._presence = Presence(f"{path}.penstock/entered")
        self.leave = self._presence.leave

    def enter(self, run_id: str, table: TableRef, check: Callable[[Sequence[str]], None]) -> None:
        self._presence.enter(run_id, str(table), check)

    def running(self, run_id: str) -> tuple[RunningAttempt, ...]:
        return ()


class Tables:
    """See `TargetTables`: no table is made here, nor a row found by its key."""

    definitions = "sqlite"

    def unique_keys(self, session: Session, table: TableRef) -> Sequence[UniqueKey]:
        return ()

    def check_replaceable(self, session: Session, table: TableRef, needs: str) -> None:
        raise NotImplementedError

    def like(self, session: Session, table: TableRef, beside: TableRef) -> tuple[str, list[str]]:
        raise NotImplementedError


class SqliteTarget(SqlTarget):
    capabilities = TARGET
    tables = Tables()

    def __init__(self, path: str, control_schema: str) -> None:
        self._path = path
        self.control = SqliteRuns(path, control_schema)

    def close(self) -> None:
        self.control.leave()

    @contextmanager
    def _reading(self) -> Iterator[SqliteSession]:
        with closing(connect(self._path, "target", "ro")) as session:
            yield session

    def columns(self, table: TableRef) -> tuple[Column, ...]:
        with self._reading() as session:
            return with_arrow(read_columns(session, table), "target")

    def identity(self, table: TableRef) -> str:
        return database_file.identity("sqlite", self._path)

    def defined_columns(
        self,
        table: TableRef,
        definition: TableDefinition,
        columns: Sequence[Column],
        types: Mapping[str, str],
    ) -> tuple[Column, ...]:
        raise PlanningError("SQLite: no tables are made")

    def fit(self, source: Sequence[Column], target: Sequence[Column]) -> list[Fit]:
        pairs = zip(map(arrow_type, source), map(arrow_type, target), strict=True)
        return [replace(fit_types(mine, theirs), formats=(ARROW,)) for mine, theirs in pairs]

    def plan_load(self, request: LoadRequest) -> LoadPlan:
        columns = {column.name: column for column in self.columns(request.target)}
        written = schema_to_text(schema_of(columns[pair.target] for pair in request.pairs))
        with self._reading() as session:
            return plan_load(session, self.tables, request, tuple(columns.values()), written)
