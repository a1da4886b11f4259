"""Which runs are executed on a server: each execution keeps a lock of the server."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Generic, TypeVar

from penstock.backends.api.execution.control import GIVEN_UP, RunningAttempt
from penstock.backends.api.execution.records import Kind
from penstock.backends.shared.attempts.run_presence import Check, RunPresence, enter_each
from penstock.backends.sql.loads.loaded_table import LoadedTable
from penstock.backends.sql.server.records import ServerRecords
from penstock.errors import PenstockError
from penstock.model.tables import TableRef
from penstock.spec.copy_spec import stored_target

R = TypeVar("R", bound=ServerRecords)

# Concurrent executions of a run; any more are invisible to other runs.
EXECUTIONS = 8
# Lock names per question.
MOST_NAMES = 1_000
UNFINISHED = ("created", "running", "failed", "interrupted", "partial", GIVEN_UP)


class ServerPresence(RunPresence, Generic[R]):
    """See `RunPresence`.

    Args:
        records: the target's records, whose session holds the locks.
    """

    def __init__(self, records: R) -> None:
        self._records = records
        self._turns: set[str] = set()

    def enter(
        self, tables: Mapping[str, TableRef], check: Callable[[str, Sequence[str]], None]
    ) -> dict[str, PenstockError]:
        return enter_each(tables, check, self._enter)

    def _enter(self, run_id: str, table: TableRef, check: Check) -> None:
        records, what = self._records, f"table {table}"
        gate = records.lock(f"penstock:table:{table}")
        with records.session.translated(what), records.holding(gate, what):
            other_runs = self._executed(self.runs_on([table]) - {run_id})
            if other_runs:
                check(other_runs)
            self.keep(run_id)

    def keep(self, run_id: str) -> None:
        """Take one of the locks for a run's executions."""
        for name in self.locks(run_id):
            if self._records.keep(name):
                break

    def runs_on(self, tables: Collection[TableRef]) -> set[str]:
        """Return the runs with any of these targets."""
        return set().union(*self.runs_by_table(tables).values())

    def runs_by_table(self, tables: Collection[TableRef]) -> Mapping[TableRef, set[str]]:
        """Return all runs, by target.

        A run that loads another table first, or is not prepared yet, is detected only by what was
        requested.
        """
        runs: dict[TableRef, set[str]] = {table: set() for table in tables}
        if not runs:
            return runs
        by_id = {LoadedTable(self._records, table).id: table for table in runs}
        for row in self._records.read(Kind.RUN, {"loads": tuple(by_id)}, ("run_id", "loads")):
            runs[by_id[row["loads"]]].add(row["run_id"])
        for row in self._records.read(Kind.RUN, {"status": UNFINISHED}, ("run_id", "spec")):
            table = stored_target(row["spec"])
            if table in runs:
                runs[table].add(row["run_id"])
        return runs

    def _executed(self, run_ids: Collection[str]) -> list[str]:
        # There may be hundreds, nearly always with no active run, which one question establishes.
        names = [name for run_id in run_ids for name in self.locks(run_id)]
        some = (names[start : start + MOST_NAMES] for start in range(0, len(names), MOST_NAMES))
        if not any(map(self._records.is_held, some)):
            return []
        return [run_id for run_id in sorted(run_ids) if self._records.is_held(self.locks(run_id))]

    def locks(self, run_id: str) -> list[str]:
        """Return a run's locks, of which each execution takes one exclusively."""
        return [self._records.lock(f"penstock:run:{run_id}:{n}") for n in range(EXECUTIONS)]

    def is_executed(self, run_id: str, table: TableRef) -> bool:
        return self._records.is_held(self.locks(run_id))

    def is_at_work(self, run_id: str, table: TableRef) -> bool:
        return self.is_executed(run_id, table)

    def take_turns(self, names: Sequence[str]) -> frozenset[str]:
        records = self._records
        with records.session.translated("the end of runs"):
            self._turns.update(
                name
                for name in names
                if name not in self._turns and records.keep(records.lock(f"penstock:turn:{name}"))
            )
        return frozenset(self._turns.intersection(names))

    def running_attempts(self, run_id: str) -> tuple[RunningAttempt, ...]:
        return tuple(
            RunningAttempt(partition_id, attempt, "loading", "", None)
            for partition_id, attempt in self._records.active_partitions(run_id).items()
        )
