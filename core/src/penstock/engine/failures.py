"""What happens to an execution when a run fails: it ends, or the other runs continue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from penstock.engine.control_link import ControlLink
from penstock.engine.state import RunState
from penstock.errors import PenstockError, RunFailedTransiently


class Failures(Protocol):
    """The way of an execution to deal with errors, and with what ends early."""

    stop_all: bool
    """Whether the first failure stops the others."""
    links_tables: bool
    """Whether tables are linked to each other, once every table that can be done is done."""
    reports_unprepared: bool
    """Whether runs are reported whose target was not prepared yet."""

    def keep(self, run: RunState, error: PenstockError) -> None:
        """Keep an error with its run, or raise it."""
        ...

    def cause(self, runs: Sequence[RunState], error: PenstockError) -> PenstockError:
        """Return the cause of the error that ends the execution.

        Args:
            runs: the runs that have not ended.
            error: the error.
        """
        ...

    def stop_if_failed(self, runs: Sequence[RunState]) -> None:
        """Stop if the failure of a run stops the others.

        Raises:
            PenstockError: the reason why the run failed.
        """
        ...

    def stopped(self, runs: Sequence[RunState], failed: set[str]) -> list[RunState]:
        """Return the runs whose partitions were left, because others have failed.

        Args:
            runs: the runs that have not ended.
            failed: the ids of runs that have failed partitions.
        """
        ...

    def losers(self, runs: Sequence[RunState]) -> list[RunState]:
        """Return the runs that a loss concerns if no run admits to it."""
        ...

    def loads_again(self, run: RunState) -> bool:
        """Whether a run whose table a crash has emptied is loaded again at once."""
        ...

    def is_untouched(self, run: RunState) -> bool:
        """Whether a run was found done, and is left alone."""
        ...

    def leave(
        self, window: Sequence[RunState], ended: Sequence[RunState], link: ControlLink
    ) -> None:
        """Free what the runs of a window hold, before the next window.

        Args:
            window: the runs.
            ended: those that have ended, and are not linked to others later.
            link: the link to the target's control store.
        """
        ...


class OneRun:
    """A run by itself ends with its error."""

    stop_all = False
    links_tables = False
    reports_unprepared = False

    def keep(self, run: RunState, error: PenstockError) -> None:
        raise error

    def cause(self, runs: Sequence[RunState], error: PenstockError) -> PenstockError:
        for run in runs:
            error = run.explain_error(error)
        return error

    def stop_if_failed(self, runs: Sequence[RunState]) -> None:
        pass

    def stopped(self, runs: Sequence[RunState], failed: set[str]) -> list[RunState]:
        return []

    def losers(self, runs: Sequence[RunState]) -> list[RunState]:
        return list(runs)

    def loads_again(self, run: RunState) -> bool:
        return True

    def is_untouched(self, run: RunState) -> bool:
        return False

    def leave(
        self, window: Sequence[RunState], ended: Sequence[RunState], link: ControlLink
    ) -> None:
        pass


class ManyRuns:
    """In a batch, each run keeps its error, and the others continue.

    Args:
        stop_all: whether the first failure stops the others.
    """

    links_tables = True
    reports_unprepared = True

    def __init__(self, *, stop_all: bool) -> None:
        self.stop_all = stop_all

    def keep(self, run: RunState, error: PenstockError) -> None:
        run.fail(error)

    def cause(self, runs: Sequence[RunState], error: PenstockError) -> PenstockError:
        return error

    def stop_if_failed(self, runs: Sequence[RunState]) -> None:
        for run in runs if self.stop_all else ():
            if run.error is not None:
                raise run.error

    def stopped(self, runs: Sequence[RunState], failed: set[str]) -> list[RunState]:
        if not (self.stop_all and failed):
            return []
        return [run for run in runs if run.run_id not in failed and run.works()]

    def losers(self, runs: Sequence[RunState]) -> list[RunState]:
        return []

    def loads_again(self, run: RunState) -> bool:
        # The view of a run that was complete is lost: the next execution finds another.
        return not run.complete

    def is_untouched(self, run: RunState) -> bool:
        return run.is_untouched

    def leave(
        self, window: Sequence[RunState], ended: Sequence[RunState], link: ControlLink
    ) -> None:
        for run in window:
            run.view.close()
        for run in ended:
            run.release()
        link.leave_all([run.run_id for run in ended])


def stopped_error() -> RunFailedTransiently:
    """Return the error of a run that was stopped because another has failed."""
    return RunFailedTransiently("stopped because another table failed (--on-table-error stop)")
