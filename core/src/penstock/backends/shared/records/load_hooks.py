"""The hooks by which a backend takes part in the steps around a load."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from penstock.backends.api.execution.control import RunRow
from penstock.backends.api.execution.records import NOW, RecordStore, Row
from penstock.backends.shared.attempts.refusals import load_lost, not_committed
from penstock.backends.shared.records.lasting_rows import Lasting, Seen
from penstock.backends.shared.records.ledger import Ledger
from penstock.errors import TargetChanged
from penstock.model.plans import LoadPlan, Step
from penstock.model.records import CommitRecord
from penstock.model.tables import TableRef

R = TypeVar("R", bound=RecordStore)


class LoadHooks(ABC, Generic[R]):
    """A backend's own operations on loaded tables: doing a step, and noticing changes.

    Args:
        ledger: the target's records.
    """

    shows_before_last_steps = True
    """Whether a run's rows are in its table, for all to see, before its last steps."""
    exchanges_together = False
    """Whether `do_all` accepts exchanges."""

    def __init__(self, ledger: Ledger[R]) -> None:
        self.ledger = ledger
        self.store: R = ledger.store

    # Whether a table is still the run's

    @abstractmethod
    def check_target(self, run_id: str) -> None:
        """Check that the table is still the one the run was prepared for.

        Raises:
            TargetChanged: it has been emptied, recreated or renamed since.
        """

    def doubtful(self, run_ids: Sequence[str]) -> Collection[str]:
        """Return the runs for which `check_target` has to look at the table."""
        return run_ids

    def changes(self, run_ids: Sequence[str]) -> dict[str, TargetChanged]:
        """Return the errors of `check_target`, by run."""
        changed: dict[str, TargetChanged] = {}
        doubtful = self.doubtful(run_ids)
        for run_id in run_ids:
            if run_id in doubtful:
                try:
                    self.check_target(run_id)
                except TargetChanged as error:
                    changed[run_id] = error
        return changed

    def is_intact(self, run_id: str) -> bool:
        """Whether a crash of the target has left a volatile load intact."""
        return True

    def check_not_shut_out(self, run: RunRow) -> None:
        """Check, before a step after the last partition, that the run's commits still count.

        Raises:
            TargetChanged: another run has voided them.
        """
        return

    def check_rows(self, run: RunRow) -> None:
        """Check the rows, before the watermark claims that a table loaded in place is complete.

        Raises:
            TargetChanged: the table is no longer the run's.
        """
        return

    def see_again(self, runs: Sequence[Lasting]) -> Mapping[str, Seen]:
        """Look at the tables of runs that are complete; see `LoadedTables.losses`.

        Args:
            runs: the runs, with what to look for.

        Returns:
            what is there, by run; nothing for runs about which nothing can be told.
        """
        return {}

    # Before the first partition

    def drop_stages(self, stages: Sequence[TableRef]) -> None:
        """Drop tables built beside others, which no run will need, as far as possible at once.

        Args:
            stages: stages, and tables that were to replace others.
        """
        return

    @abstractmethod
    def check_emptying(self, run: RunRow) -> None:
        """Check before a restarted run empties its table again.

        Raises:
            TargetChanged: another run has loaded rows since, which would be lost.
        """

    def check_replanning(self, run_id: str) -> None:
        """Check before a run gets another plan.

        Raises:
            TargetChanged: its rows cannot be taken back.
        """
        return

    def prepare_at_once(self, loads: Mapping[str, LoadPlan]) -> frozenset[str]:
        """Prepare runs in a faster way than step by step, if the backend has one.

        Returns:
            the ids of the runs that are prepared now, and were not before.
        """
        return frozenset()

    def before_load(self, run: RunRow, load: LoadPlan) -> None:
        """Run before the first step, in a transaction."""
        return

    def before_loads(self, loads: Sequence[tuple[RunRow, LoadPlan]]) -> None:
        """Run `before_load` for several runs, in one transaction."""
        for run, load in loads:
            self.before_load(run, load)

    @abstractmethod
    def after_preparing(self, run: RunRow, load: LoadPlan) -> Row:
        """Return what to keep in the run's record to recognize the table later.

        Called in the transaction that marks the run as prepared.
        """

    def note_prepared(self, prepared: Sequence[tuple[RunRow, LoadPlan]]) -> None:
        """Mark runs as prepared, in this transaction, with what identifies their tables."""
        for run, load in prepared:
            changes = self.after_preparing(run, load)
            self.ledger.runs.change(
                run.run_id, {"prepared_at": NOW, "status": "running", **changes}
            )

    # Steps

    @abstractmethod
    def do(self, run: RunRow, step: Step) -> None:
        """Do a step; one after the last partition, only if the table is still the run's.

        Raises:
            TargetChanged: it is not.
        """

    def do_all(self, steps: Sequence[tuple[RunRow, Step]]) -> None:
        """Do steps of several runs, in one transaction."""
        for run, step in steps:
            self.do(run, step)

    def is_done(self, run: RunRow, step: Step) -> bool:
        """Whether the table is in the state after a step.

        Asked if steps and records are separate, and about steps that a stopped run has not done.
        """
        return False

    def after_step(self, run: RunRow, step: Step) -> None:
        """Run in the transaction that records a step after the last partition."""
        return

    def after_steps(self, steps: Sequence[tuple[RunRow, Step]]) -> None:
        """Run `after_step` for the steps of `do_all`."""
        for run, step in steps:
            self.after_step(run, step)

    def after_record(self, run_id: str, step: Step) -> None:
        """Run after this process has recorded a step after the last partition."""
        return

    def finish_at_once(self, steps: Mapping[str, Sequence[Step]]) -> frozenset[str]:
        """Do steps of several runs together, where steps and records are separate.

        Returns:
            the ids of the runs whose steps are done and recorded.
        """
        return frozenset()

    # Partitions that are copied again

    @abstractmethod
    def check_recopy(self, run_id: str) -> None:
        """Check that partitions of a run can be copied again; see `Recopies.check`."""

    @abstractmethod
    def take_back(
        self, run: RunRow, records: Sequence[CommitRecord], rows_of: TableRef | None
    ) -> None:
        """Delete the rows of partitions, within its transaction; see `Recopies.forget`.

        Args:
            run: the run.
            records: the commit records of the partitions.
            rows_of: the table from which the rows are deleted; None to leave them.
        """


def check_finishing(ledger: Ledger[Any], hooks: LoadHooks[Any], run_id: str) -> RunRow:
    """Check that a run may finish.

    Args:
        ledger: the target's records.
        hooks: what the backend knows about the loaded tables.
        run_id: the id of the run.

    Raises:
        TargetChanged: another run has shut this one out.
        LoadLost: a crash has emptied the table. TransientError: the run was restarted.
    """
    run = ledger.runs.find(run_id)
    if run is not None:
        hooks.check_not_shut_out(run)
    if run is None or not ledger.commits.are_complete(run_id, len(run.plan.partitions)):
        raise not_committed(run_id)
    if run.plan.load.volatile and not hooks.is_intact(run_id):
        raise load_lost(run_id)
    return run


@dataclass(frozen=True, slots=True)
class MergeCounts:
    """The row counts of a night's merge."""

    inserted: int
    updated: int
    deleted: int = 0
    rows: int | None = None
    """The current row count of the target's table; None if not counted."""
    target: str = ""
    """The identity of the target's table."""


class NightHooks(ABC):
    """What a backend does at the end of a night; only for one that gathers rows in stages."""

    merges_together = False
    """Whether `merge` accepts several runs."""

    @abstractmethod
    def merge(self, nights: Sequence[tuple[RunRow, Sequence[CommitRecord]]]) -> list[MergeCounts]:
        """Merge the stages of runs into their tables, in the transaction that records it.

        Args:
            nights: the runs, each with its commit records; several if `joins` allows it.
        """

    @abstractmethod
    def storages(self, tables: Sequence[TableRef]) -> Mapping[TableRef, str]:
        """See `Nights.storages`."""

    def take_deleted(self, run: RunRow) -> int:
        """Forget the keys from `record_deleted_keys`; return their number.

        Their rows go with the replaced table.
        """
        raise NotImplementedError  # it builds no nights
