"""The control store: what a target keeps of runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from penstock.errors import Diagnosis, PenstockError, PermanentError, Unreadable
from penstock.model.journal import Journal
from penstock.model.nights import Watermark
from penstock.model.plans import LoadPlan, PartitionPlan, Step
from penstock.model.records import CommitRecord
from penstock.model.snapshots import Snapshot, SourceState
from penstock.model.tables import TableRef
from penstock.spec.worker_spec import Patience


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run as the target's control table has it."""

    run_id: str
    generation: int
    """Counts how often the run was started over."""
    spec: Mapping[str, Any]
    plan: PartitionPlan
    source_state: SourceState
    snapshots: tuple[Snapshot, ...]
    status: str
    created_at: str
    prepared_at: str | None
    finished_at: str | None
    failures: tuple[Mapping[str, Any], ...]
    released_at: str | None = None
    """When it was said that nobody needs the run's snapshot any more."""


@dataclass(frozen=True, slots=True)
class RunHead:
    """What tells runs apart at a glance."""

    run_id: str
    status: str
    created_at: str
    finished_at: str | None


@dataclass(frozen=True, slots=True)
class RunLine:
    """A run without its plan."""

    head: RunHead
    spec: Mapping[str, Any]
    partitions: int
    committed: int
    rows: int


@dataclass(frozen=True, slots=True)
class NewRun:
    """A run that is to be stored."""

    run_id: str
    spec: Mapping[str, Any]
    plan: PartitionPlan
    state: SourceState
    snapshot: Snapshot | None


@contextmanager
def reading_run(run_id: str) -> Iterator[None]:
    """Around the reading of what a control store keeps of a run.

    Raises:
        PermanentError: it is not of the form in which it was written.
    """
    try:
        yield
    except (AttributeError, IndexError, KeyError, TypeError, ValueError, Unreadable) as error:
        found = str(error) if isinstance(error, Unreadable) else f"{type(error).__name__}: {error}"
        raise PermanentError(
            f"target: the record of run {run_id} cannot be read: {found}; was it edited? "
            "Start a new run",
            Diagnosis(side="target"),
        ) from error


@dataclass(frozen=True, slots=True)
class Outlook:
    """Whether a run's snapshot is still needed, and which one it is."""

    status: str
    generation: int
    snapshot: Snapshot | None
    pending: int
    """Partitions that are not committed."""
    released: bool


@dataclass(frozen=True, slots=True)
class RunningAttempt:
    """An attempt that is alive in the target at this moment."""

    partition_id: str
    attempt: int
    state: str
    since: str
    bytes: int | None


class ControlStore(Protocol):
    """Runs and commit records, kept in the target."""

    patience: Patience
    """How long its calls wait for others; may be set at any time."""
    may_be_left: bool
    """Whether another thread may close the catalog while a call waits for the server."""
    batch_id: str
    """The batch of whose tables this store keeps the runs: what it does for several of them may be
    done at once, in a session that says so. Empty: of none."""

    def create(self) -> None:
        """Create the control tables where they are missing.

        Raises:
            PlanningError: the user may not; says what an administrator can do.
        """
        ...

    def create_run(
        self,
        run_id: str,
        spec: Mapping[str, Any],
        plan: PartitionPlan,
        state: SourceState,
        snapshot: Snapshot | None,
    ) -> bool:
        """Store a run; False where the id exists already (nothing is changed then)."""
        ...

    def create_runs(self, runs: Sequence[NewRun]) -> frozenset[str]:
        """Store runs. Returns the ids of those that are as they were given here; the others exist
        already, and nothing of them is changed."""
        ...

    def load_run(self, run_id: str) -> RunRow | None: ...

    def load_runs(self, run_ids: Sequence[str]) -> Mapping[str, RunRow]:
        """By id, those that exist."""
        ...

    def heads(self) -> tuple[RunHead, ...]:
        """Of all runs, the newest first."""
        ...

    def lines(self, heads: Sequence[RunHead]) -> tuple[RunLine, ...]:
        """Of some runs, in that order, in few statements."""
        ...

    def is_at_work(self, run_id: str, table: TableRef) -> bool | None:
        """Whether a process executes a run on a table at this moment; None: that cannot be told.

        Parameters:
            table: the one that `enter` was called with.
        """
        ...

    def enter(self, run_id: str, table: TableRef, check: Callable[[Sequence[str]], None]) -> None:
        """Say that this process executes the run on the table, until this store's catalog closes.

        Several processes may execute one run. However a process ends, that ends it too.

        Parameters:
            table: the one that the run is to change in the end, wherever its rows are loaded first.
            check: called with the ids of the other runs that processes execute on the table at this
                moment, while no other run can enter it. What it raises leaves this run outside.
        """
        ...

    def enter_all(
        self,
        tables: Mapping[str, TableRef],
        check: Callable[[str, Sequence[str]], None],
    ) -> Mapping[str, PenstockError]:
        """`enter` for many runs. Returns by run what `check`, which is called with its id, has
        raised."""
        ...

    def leave_all(self, tables: Mapping[str, TableRef]) -> None:
        """Take back what `enter` has said, for runs that need nothing more of this process."""
        ...

    def prepare_all(self, loads: Mapping[str, LoadPlan]) -> Mapping[str, bool | PenstockError]:
        """`prepare` for many runs. Returns by run what it would return, or raise."""
        ...

    def prepare(self, run_id: str, load: LoadPlan) -> bool:
        """Do the steps before the first partition, once per run, and note what identifies the table
        that is loaded.

        Idempotent: False where an earlier call has done it. Where one was interrupted, all of it is
        done again.
        """
        ...

    def check_target(self, run_id: str) -> None:
        """Look whether the table is still the one that the run was prepared for.

        Attempts and the steps after the last partition look for themselves, in their transactions.

        Raises:
            TargetChanged: it was emptied, made again or put aside since, by another run or by
                somebody else.
        """
        ...

    def check_targets(self, run_ids: Sequence[str]) -> Mapping[str, PenstockError]:
        """`check_target` for many runs. Returns by run what it has found."""
        ...

    def finish_all(self, steps: Mapping[str, Sequence[Step]]) -> frozenset[str]:
        """`finish` for steps of many runs, each run's in their order, as far as they can be done
        together; none of them is `urgent`, and no load `volatile`.

        Returns: ids of the runs whose steps are done. Of the others none is: they want to be done
            one by one, which says what is wrong.
        """
        ...

    def finish(self, run_id: str, step: Step) -> bool:
        """Do a step after the last partition, once per run, and record it.

        Idempotent: False where an earlier call has done it. One that was interrupted before its
        record is done again, or found done.
        """
        ...

    def steps_done(self, run_id: str) -> frozenset[str]:
        """Ids of the steps after the last partition that are done, and recorded."""
        ...

    def steps_done_of(self, run_ids: Sequence[str]) -> Mapping[str, frozenset[str]]:
        """The same by run."""
        ...

    def steps_in_effect(self, run_id: str) -> frozenset[str]:
        """Those, and the ones that somebody has done and has not come to record."""
        ...

    def steps_left(
        self, tables: Sequence[TableRef]
    ) -> Mapping[TableRef, tuple[tuple[str, Step], ...]]:
        """By table, the steps after the load that runs have left undone on one which they load in
        place, each with its run's id: of runs that have not ended well and are not executed, unless
        another one has done those steps since."""
        ...

    def intact(self, run_id: str) -> bool:
        """False where a crash of the target has emptied the table of a volatile load."""
        ...

    def start_over(
        self,
        run_id: str,
        generation: int,
        load: LoadPlan,
        state: SourceState,
        snapshot: Snapshot | None,
    ) -> int:
        """Forget what is committed, prepare the target again, and begin a new generation.

        Attempts of older generations that are open are waited for, or ended; later ones are
        refused. A run whose preparation is interrupted has begun its new generation, and is
        prepared by the next execution.

        Parameters:
            generation: the one that ends.

        Returns: the new generation.

        Raises:
            Superseded: it has ended already.
        """
        ...

    def set_view(
        self,
        run_id: str,
        generation: int,
        before: Sequence[Snapshot],
        state: SourceState,
        snapshots: Sequence[Snapshot],
        *,
        nothing_committed: bool,
    ) -> int:
        """Store what the run's rows are read with from now on: all snapshots, newest last.

        Parameters:
            generation, before: the run's generation and snapshots as they are thought to be.
            nothing_committed: begin a new generation, so that no attempt that still reads with an
                older snapshot commits anything.

        Returns: the run's generation from now on.

        Raises:
            Superseded: they are others by now, or something is committed after all.
        """
        ...

    def release_snapshot(self, run_id: str) -> bool:
        """Note that nobody needs the run's snapshot any more. False where there is no such run."""
        ...

    def require_snapshot(self, run_id: str) -> bool:
        """Note that the run's snapshot is needed again. False where there is no such run."""
        ...

    def outlook(self, run_id: str) -> Outlook | None: ...

    def recopied(self, run_id: str, request: str) -> frozenset[str]:
        """Ids of the partitions for which a request to copy them again was seen."""
        ...

    def check_recopy(self, run_id: str) -> None:
        """
        Raises:
            UsageError: the run's table is not where, or as, the partitions were loaded any more.
        """
        ...

    def forget(
        self,
        run_id: str,
        partition_ids: Sequence[str],
        request: str,
        *,
        rows_of: TableRef | None,
        patience: float,
    ) -> frozenset[str]:
        """Take back what is committed of some partitions, once for each request.

        One transaction; an attempt that is open is waited for.

        Parameters:
            request: names the request, whoever repeats it.
            rows_of: the table out of which the partitions' rows are deleted; None to leave them to
                the attempts that follow.
            patience: seconds to wait for open attempts; 0: for ever.

        Returns: ids of the partitions whose commit record is gone.

        Raises:
            UsageError: see `check_recopy`.
            PermanentError: their rows are not those that were committed. Nothing was changed.
        """
        ...

    def set_status(
        self, run_id: str, status: str, failures: Sequence[Mapping[str, Any]]
    ) -> None: ...

    def set_statuses(self, statuses: Mapping[str, tuple[str, Sequence[Mapping[str, Any]]]]) -> None:
        """`set_status` for many runs."""
        ...

    def committed_of(self, run_ids: Sequence[str]) -> Mapping[str, tuple[CommitRecord, ...]]:
        """`committed` by run."""
        ...

    def committed(self, run_id: str) -> tuple[CommitRecord, ...]:
        """The commit records: what is done, and nothing else says so."""
        ...

    def committed_in_series(self, series: str) -> Mapping[str, tuple[str, CommitRecord]]:
        """What the runs of a series have committed: by partition, the run and the record."""
        ...

    def running(self, run_id: str) -> tuple[RunningAttempt, ...]: ...

    def merge_all(self, run_ids: Sequence[str]) -> None:
        """Merge the stages of runs into their tables in one transaction, with the records of their
        steps `MERGE_STEP`.

        Raises:
            Overtaken: another night has ended since one of them was planned.
            PermanentError: this target cannot do that for several.
        """
        ...

    def drop_overtaken(self, run_ids: Sequence[str]) -> None:
        """Drop the stages of other nights of the runs' watermarks, once the runs have merged their
        own: they have been planned from an earlier epoch, and merge nothing any more."""
        ...

    def storages(self, tables: Sequence[TableRef]) -> Mapping[TableRef, str]:
        """By table, a text that identifies it from one night to the next; empty if there is no such
        table."""
        ...

    def watermarks(self) -> tuple[Watermark, ...]:
        """How far sources were read, the latest of each name."""
        ...

    def latest_watermarks(self, names: Sequence[str]) -> Mapping[str, Watermark]:
        """The latest of each of these names; those that have none are left out."""
        ...

    def watermark_names(self) -> frozenset[str]:
        """The names of all watermarks."""
        ...

    def watermark_history(self, name: str) -> tuple[Watermark, ...]:
        """All of this name, the newest first."""
        ...

    def put_watermark(self, watermark: Watermark) -> bool:
        """Store a watermark of a person's own; False where its epoch is taken. Nights that were
        planned from an earlier one merge nothing."""
        ...

    @property
    def keeps_figures(self) -> bool:
        """Whether there is room for what reports need: `CommitRecord.spent`, and journals. The
        control tables of earlier versions have none."""
        ...

    def put_journals(self, journals: Mapping[str, Journal]) -> None:
        """Keep journals of an execution, each in the place of its last one. Waits for nobody; does
        nothing where there is no room for them.

        Parameters:
            journals: by the id of a run, or of a batch.
        """
        ...

    def journals(self, run_id: str) -> tuple[Journal, ...]:
        """Of all executions of a run, or of a batch, the first one first."""
        ...

    def journals_of(self, run_ids: Sequence[str]) -> Mapping[str, tuple[Journal, ...]]:
        """The same by run."""
        ...
