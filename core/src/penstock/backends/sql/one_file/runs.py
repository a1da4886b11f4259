"""The control store of a database in one file; files next to it show which runs are active."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from penstock.backends.api.execution.control import RunningAttempt, RunRow
from penstock.backends.api.execution.records import NOW, Kind
from penstock.backends.shared.attempts.presence import Presence
from penstock.backends.sql.loads.load_plan import SWAP
from penstock.backends.sql.loads.loaded_runs import LoadedRuns
from penstock.backends.sql.loads.loaded_table import LoadedTable
from penstock.backends.sql.loads.loaded_tables import LoadedTables
from penstock.backends.sql.one_file.database import OneFile
from penstock.backends.sql.one_file.records import FileRecords
from penstock.errors import PenstockError
from penstock.model.plans import LoadPlan
from penstock.model.tables import TableRef
from penstock.spec.modes import mode_of


class FileRuns(LoadedRuns):
    """A control store that registers executions in locked files: the database has no sessions."""

    def __init__(self, database: OneFile, schema: str) -> None:
        super().__init__(FileRecords(database, schema))
        self._database = database
        self._presence = Presence(os.path.join(database.folder, "entered"))

    def leave(self) -> None:
        """Leave the runs that were entered."""
        self._presence.leave()
        self._database.tidy()

    def enter(self, run_id: str, table: TableRef, check: Callable[[Sequence[str]], None]) -> None:
        self._presence.enter(run_id, str(table), check)

    def enter_all(
        self,
        tables: Mapping[str, TableRef],
        check: Callable[[str, Sequence[str]], None],
    ) -> dict[str, PenstockError]:
        table_names = {run_id: str(table) for run_id, table in tables.items()}
        return self._presence.enter_all(table_names, check)

    def leave_all(self, tables: Mapping[str, TableRef]) -> None:
        self._presence.leave(tables)

    def is_at_work(self, run_id: str, table: TableRef) -> bool:
        return self._presence.executes(run_id, str(table))

    def running_attempts(self, run_id: str) -> tuple[RunningAttempt, ...]:
        return self._database.attempts.running_attempts(run_id)

    def set_statuses(self, statuses: Mapping[str, tuple[str, Sequence[Mapping[str, Any]]]]) -> None:
        super().set_statuses(statuses)
        self._clean_up([status for status, _ in statuses.values()])

    def _clean_up(self, statuses: Sequence[str]) -> None:
        if not {"running", "created"}.issuperset(statuses):
            self._database.attempts.sweep()
            self._database.tidy()

    # The tables that are loaded, together

    def check_targets(self, run_ids: Sequence[str]) -> dict[str, PenstockError]:
        if len(run_ids) < 2:
            return super().check_targets(run_ids)
        with self._tables.reading() as tables_exist:
            doubtful = self._doubtful(run_ids) if tables_exist else set()
        return super().check_targets([run_id for run_id in run_ids if run_id in doubtful])

    def _doubtful(self, run_ids: Sequence[str]) -> set[str]:
        runs, done = self.load_runs(run_ids), self.steps_done_of(run_ids)
        due = {
            run_id: run
            for run_id, run in runs.items()
            if run.prepared_at is not None and run.status != "done" and SWAP not in done[run_id]
        }
        tables = LoadedTables(self._tables, _tables(due.values()))
        modes = {run_id: mode_of(run.spec) for run_id, run in due.items()}
        # A table that cannot be read reports that itself.
        return tables.doubtful(modes) | set(run_ids).difference(runs)

    def before_loads(self, loads: Sequence[tuple[RunRow, LoadPlan]]) -> None:
        LoadedTables(self._tables, _tables(run for run, _ in loads)).begin()

    def note_prepared(self, prepared: Sequence[tuple[RunRow, LoadPlan]]) -> None:
        runs = [run for run, _ in prepared]
        tables = LoadedTables(self._tables, _tables(runs))
        tables.emptied([run.run_id for run in runs if mode_of(run.spec).starts_empty])
        tables.end()
        noted = {"prepared_at": NOW, "status": "running", "disturbed_by": None}
        self._tables.set_each(
            Kind.RUN,
            {
                run.run_id: {**noted, "loads": LoadedTable(self._tables, load.table).id}
                for run, load in prepared
            },
        )


def _tables(runs: Iterable[RunRow]) -> dict[str, TableRef]:
    return {run.run_id: run.plan.load.table for run in runs}
