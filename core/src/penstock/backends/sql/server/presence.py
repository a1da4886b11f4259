"""Which runs are executed on a server: each execution keeps a lock of the server."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from random import sample
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

# Locks of which each execution of a run takes one. A run has further ones, too many to ask for them
# each time: a session that holds such a lock also holds one that says so, whatever the run.
FIRST_LOCKS, FURTHER_LOCKS = 8, 120
# Sessions that may say so; the executions of any more are invisible to other runs.
MOST_TELLING = 120
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
        self._tells = False
        """Whether this session says that it holds further locks."""

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

    def keep(self, run_id: str) -> str:
        """Take one of the locks for a run's executions; return its name, empty if none is free."""
        if name := self._take_one(self.locks(run_id)):
            return name
        self._tells = self._tells or bool(self._take_one(_shuffled(self.telling_locks())))
        return self._take_one(_shuffled(self._further_locks(run_id))) if self._tells else ""

    def _take_one(self, names: Sequence[str]) -> str:
        return next(filter(self._records.keep, names), "")

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
        if not self.is_any_held(run_ids):
            return []
        return [run_id for run_id in sorted(run_ids) if self._is_held(run_id)]

    def is_any_held(self, run_ids: Collection[str]) -> bool:
        """Whether some of these runs may be executed; if not, none is."""
        names = [name for run_id in run_ids for name in self.locks(run_id)]
        if not names:
            return False
        names += self.telling_locks()
        some = (names[start : start + MOST_NAMES] for start in range(0, len(names), MOST_NAMES))
        return any(map(self._records.is_held, some))

    def _is_held(self, run_id: str) -> bool:
        return self._records.is_held(self.all_locks(run_id))

    def locks(self, run_id: str) -> list[str]:
        """Return the first of a run's locks, of which each execution takes one exclusively."""
        return self._numbered(f"run:{run_id}", range(FIRST_LOCKS))

    def all_locks(self, run_id: str) -> list[str]:
        """Return all of a run's locks."""
        return [*self.locks(run_id), *self._further_locks(run_id)]

    def _further_locks(self, run_id: str) -> list[str]:
        return self._numbered(f"run:{run_id}", range(FIRST_LOCKS, FIRST_LOCKS + FURTHER_LOCKS))

    def telling_locks(self) -> list[str]:
        """Return locks of which a session takes one before it takes further locks of runs."""
        return self._numbered("further", range(MOST_TELLING))

    def _numbered(self, name: str, numbers: Iterable[int]) -> list[str]:
        return [self._records.lock(f"penstock:{name}:{n}") for n in numbers]

    def is_executed(self, run_id: str, table: TableRef) -> bool:
        return self.is_any_held([run_id]) and self._is_held(run_id)

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

    def end_turns(self, names: Sequence[str]) -> None:
        records, mine = self._records, self._turns.intersection(names)
        self._turns -= mine
        with records.session.translated("the end of runs"):
            records.release_all([records.lock(f"penstock:turn:{name}") for name in mine])

    def running_attempts(self, run_id: str) -> tuple[RunningAttempt, ...]:
        return tuple(
            RunningAttempt(partition_id, attempt, "loading", "", None)
            for partition_id, attempt in self._records.active_partitions(run_id).items()
        )


def _shuffled(names: Sequence[str]) -> list[str]:
    """Return names in a random order: others have taken many of the first ones."""
    return sample(names, len(names))
