"""Runs being executed now, as far as a target can tell."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from penstock.backends.api.execution.control import RunningAttempt
from penstock.errors import PenstockError, TargetBusy
from penstock.model.tables import TableRef

Check = Callable[[Sequence[str]], None]


class RunPresence(ABC):
    """See `Presence`; a backend adds how runs are registered."""

    @abstractmethod
    def enter(
        self, tables: Mapping[str, TableRef], check: Callable[[str, Sequence[str]], None]
    ) -> dict[str, PenstockError]: ...

    def leave(self, tables: Mapping[str, TableRef]) -> None:
        """Do nothing: runs leave when the catalog closes."""
        return

    def is_at_work(self, run_id: str, table: TableRef) -> bool | None:
        return None

    def is_executed(self, run_id: str, table: TableRef) -> bool:
        """Whether a run is known to be active on a table."""
        return False

    def take_turns(self, names: Sequence[str]) -> frozenset[str]:
        return frozenset(names)  # there are no locks

    def end_turns(self, names: Sequence[str]) -> None:
        """Do nothing: all have all turns."""
        return

    def running_attempts(self, run_id: str) -> tuple[RunningAttempt, ...]:
        return ()  # no lock of another process is visible


def enter_each(
    tables: Mapping[str, TableRef],
    check: Callable[[str, Sequence[str]], None],
    enter: Callable[[str, TableRef, Check], None],
) -> dict[str, PenstockError]:
    """Register runs one by one; return the errors by run.

    Args:
        tables: the tables, by run.
        check: see `Presence.enter`.
        enter: registers a run, and calls the check with the ids of the other runs on its table.
    """
    failed: dict[str, PenstockError] = {}
    for run_id, table in tables.items():
        try:
            enter(run_id, table, partial(check, run_id))
        except TargetBusy as error:
            failed[run_id] = error
    return failed
