"""The control store: what a target keeps of runs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
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

GIVEN_UP = "given-up"
"""The status of a run that no longer claims its table; it may still be resumed."""


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run as stored in the target's control table."""

    run_id: str
    generation: int
    """Counts how often the run was restarted."""
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
    """When the run's snapshot was released."""


@dataclass(frozen=True, slots=True)
class RunView:
    """A run's generation and snapshots, without its plan."""

    generation: int
    source_state: SourceState
    snapshots: tuple[Snapshot, ...]
    released_at: str | None


@dataclass(frozen=True, slots=True)
class RunHead:
    """The facts that identify a run at a glance."""

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
    """A run to be stored."""

    run_id: str
    spec: Mapping[str, Any]
    plan: PartitionPlan
    state: SourceState
    snapshot: Snapshot | None


@dataclass(frozen=True, slots=True)
class BegunRun:
    """A run that has begun to load a table, and is not done."""

    run_id: str
    spec: Mapping[str, Any]
    since: str
    """When it was prepared, or when its last execution ended, whichever is later."""
    given_up: bool


@dataclass(frozen=True, slots=True)
class Loss:
    """Rows that a run has committed and its table no longer has."""

    what: str
    """What has happened to the table, if that can be told."""
    expected: int
    """The rows that the run has committed."""
    found: int | None
    """The rows that are there instead; None if they were not counted."""
    partial: bool = False
    """Whether some of the rows are still there."""
    safe_to_repeat: bool = False
    """Whether none of the rows can be there, so that loading them again doubles none."""


@contextmanager
def reading_run(run_id: str) -> Iterator[None]:
    """Translate errors while reading a run from a control store.

    Raises:
        PermanentError: the stored form is damaged.
    """
    try:
        yield
    except (AttributeError, IndexError, KeyError, TypeError, ValueError, Unreadable) as error:
        problem = (
            str(error) if isinstance(error, Unreadable) else f"{type(error).__name__}: {error}"
        )
        raise PermanentError(
            f"target: the record of run {run_id} cannot be read: {problem}; was it edited? "
            "Start a new run",
            Diagnosis(side="target"),
        ) from error


@dataclass(frozen=True, slots=True)
class Outlook:
    """Whether a run's snapshot is still needed, and the snapshot."""

    status: str
    generation: int
    snapshot: Snapshot | None
    pending: int
    """The number of partitions that are not committed."""
    released: bool


@dataclass(frozen=True, slots=True)
class RunningAttempt:
    """An attempt that is currently alive in the target."""

    partition_id: str
    attempt: int
    state: str
    since: str
    bytes: int | None


class Watermarks(Protocol):
    """How far sources were read, and by which night."""

    def latest(self, names: Sequence[str]) -> Mapping[str, Watermark]:
        """Return the latest watermark of each of these names; names without any are left out."""
        ...

    def latest_of_all(self) -> tuple[Watermark, ...]:
        """Return the latest watermark of each name."""
        ...

    def names(self) -> frozenset[str]:
        """Return the names of all watermarks."""
        ...

    def history(self, name: str) -> tuple[Watermark, ...]:
        """Return all watermarks of a name, newest first."""
        ...

    def put(self, watermark: Watermark) -> bool:
        """Store a watermark set by the user; return False if its epoch is taken.

        Nights planned from an earlier epoch merge nothing.
        """
        ...


class Journals(Protocol):
    """How executions spent their time."""

    def put(self, journals: Mapping[str, Journal]) -> None:
        """Store journals of executions, each replacing its previous version.

        Waits for no lock.

        Args:
            journals: by the id of a run or batch.
        """
        ...

    def of(self, run_ids: Sequence[str]) -> Mapping[str, tuple[Journal, ...]]:
        """Return the journals of all executions of runs or batches, oldest first, by id."""
        ...


class Runs(Protocol):
    """Runs: their requests and plans, their snapshots, and how they ended."""

    def create(self, runs: Sequence[NewRun]) -> frozenset[str]:
        """Store runs; return the ids of those that are stored as given.

        The others exist already, and stay unchanged.
        """
        ...

    def find(self, run_id: str) -> RunRow | None:
        """Return a run; None if it does not exist.

        Raises:
            PermanentError: its record is damaged.
        """
        ...

    def view(self, run_id: str) -> RunView | None:
        """Return a run's generation and snapshots, which costs less than `find`; None without it.

        Raises:
            PermanentError: its record is damaged.
        """
        ...

    def load(self, run_ids: Sequence[str]) -> Mapping[str, RunRow]:
        """Return the existing runs whose records can be read, by id."""
        ...

    def statuses(self, run_ids: Sequence[str]) -> Mapping[str, str]:
        """Return the status of each run that exists, by id, which costs less than `load`."""
        ...

    def heads(self) -> tuple[RunHead, ...]:
        """Return the heads of all runs, newest first."""
        ...

    def lines(self, heads: Sequence[RunHead]) -> tuple[RunLine, ...]:
        """Return some runs, in the order of the heads, with few statements."""
        ...

    def begun(self) -> tuple[BegunRun, ...]:
        """Return the runs that have changed their tables, and are neither done nor given up."""
        ...

    def set_statuses(self, statuses: Mapping[str, tuple[str, Sequence[Mapping[str, Any]]]]) -> None:
        """Set the statuses of many runs."""
        ...

    def release_snapshot(self, run_id: str) -> bool:
        """Record that the run's snapshot is no longer needed; return whether the run exists."""
        ...

    def require_snapshot(self, run_id: str) -> bool:
        """Record that the run's snapshot is needed again; return whether the run exists."""
        ...

    def outlook(self, run_id: str) -> Outlook | None: ...

    def outlooks(self, run_ids: Sequence[str]) -> Mapping[str, Outlook]:
        """Return the outlook of each run that exists, by id, with few statements."""
        ...


class Commits(Protocol):
    """Commit records, which alone define what is done."""

    def of(self, run_ids: Sequence[str]) -> Mapping[str, tuple[CommitRecord, ...]]:
        """Return the commit records of each run; an empty tuple for a run without any."""
        ...

    def ids(self, run_ids: Sequence[str]) -> Mapping[str, frozenset[str]]:
        """Return the ids of the committed partitions of each run, which costs less than `of`."""
        ...

    def in_series(self, series: str) -> Mapping[str, tuple[str, CommitRecord]]:
        """Return the commits of the runs of a series: by partition, the run and the record."""
        ...


class Generations(Protocol):
    """The generations of a run: prepared, ended, and read with which snapshots."""

    def prepare(self, loads: Mapping[str, LoadPlan]) -> Mapping[str, bool | PenstockError]:
        """Do the steps before the first partition, once per run, and record the tables' identities.

        Idempotent. If an earlier call was interrupted, all of it is done again.

        Returns:
            by run, whether this call has prepared it: False if an earlier one has; or the error.
        """
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

        Open attempts of older generations are awaited or ended; later ones are refused. If the
        preparation is interrupted, the run has already begun its new generation, and the next
        execution prepares it.

        Args:
            run_id: the id of the run.
            generation: the generation to end.
            load: the plan of the load.
            state: the state of the source's tables, as its catalog returned it.
            snapshot: the snapshot with which its rows are read; None without one.

        Returns:
            the new generation.

        Raises:
            Superseded: the generation has already ended.
        """
        ...

    def replan(self, run: NewRun, generation: int) -> None:
        """Give a run another request and plan, and forget what it has committed.

        Attempts that are still open can no longer commit.

        Args:
            run: the new request and plan, with the id of an existing run.
            generation: the generation to end.

        Raises:
            Superseded: the generation has already ended.
        """
        ...

    def add_holder(
        self,
        run_id: str,
        generation: int,
        snapshot: Snapshot,
        token: str,
        gone: Collection[str] = (),
    ) -> None:
        """Store that another session holds a run's newest snapshot, unless that was replaced.

        Only the newest few are kept.

        Args:
            run_id: the id of the run.
            generation: the generation that the run is expected to be in.
            snapshot: the snapshot that the run is expected to have.
            token: the session's own token for it.
            gone: tokens of sessions that no longer hold it, which are forgotten.
        """
        ...

    def set_view(
        self,
        run_id: str,
        generation: int,
        expected_snapshots: Sequence[Snapshot],
        state: SourceState,
        snapshots: Sequence[Snapshot],
        *,
        nothing_committed: bool,
    ) -> int:
        """Store the snapshots that the run's rows are read with from now on, newest last.

        Args:
            run_id: the id of the run.
            generation: the generation that the run is expected to be in.
            expected_snapshots: the snapshots that the run is expected to have.
            state: the state of the source's tables, as its catalog returned it.
            snapshots: the snapshots with which rows are read, the newest last.
            nothing_committed: begin a new generation, so that no attempt that reads with an
                older snapshot commits anything.

        Returns:
            the run's generation from now on.

        Raises:
            Superseded: the expectation is outdated, or something is committed after all.
        """
        ...


class Steps(Protocol):
    """Steps after the last partition."""

    def finish(self, run_id: str, step: Step) -> bool:
        """Do a step after the last partition, once per run, and record it.

        Idempotent: returns False if an earlier call has done it. A step interrupted before its
        record is done again, or found done.
        """
        ...

    def finish_together(self, steps: Mapping[str, Sequence[Step]]) -> frozenset[str]:
        """Do steps of many runs, each run's in order, as far as they can be done together.

        No load is `volatile`. Exchanges, which lock readers out, may be among them.

        Returns:
            the ids of the runs whose steps are done. For the others no step is done: they must
        be done one by one, which reports the error.
        """
        ...

    def done(self, run_ids: Sequence[str]) -> Mapping[str, frozenset[str]]:
        """Return the ids of recorded steps, by run."""
        ...

    def in_effect(self, run_id: str) -> frozenset[str]:
        """Return the ids of recorded steps, and of those that are done but not recorded."""
        ...

    def pending(
        self, tables: Sequence[TableRef]
    ) -> Mapping[TableRef, tuple[tuple[str, Step], ...]]:
        """Return, by table, steps after the load that runs have left undone, each with its run id.

        Only for tables loaded in place, by runs that have not succeeded and are not being executed,
        unless another run has done the steps since.
        """
        ...


class Nights(Protocol):
    """The ends of nights; only in targets that merge them."""

    def merge(self, run_ids: Sequence[str]) -> None:
        """Merge the stages of runs in one transaction, which also records the step `MERGE_STEP`.

        Raises:
            Overtaken: another night has ended since one of them was planned.
            PermanentError: the target cannot do this for several runs.
        """
        ...

    def drop_overtaken(self, run_ids: Sequence[str]) -> None:
        """Drop the stages of other nights with the same watermarks, after the runs' own merge.

        Those nights were planned from an earlier epoch, and can no longer merge.
        """
        ...

    def storages(self, tables: Sequence[TableRef]) -> Mapping[TableRef, str]:
        """Return, by table, a text that identifies it across nights; empty if it does not exist."""
        ...


class LoadedTables(Protocol):
    """The tables that runs load: whether they are still the runs', and have their rows."""

    def check(self, run_ids: Sequence[str]) -> Mapping[str, PenstockError]:
        """Check that tables are still those that runs were prepared for; return the errors by run.

        Attempts and the steps after the last partition check it themselves, in their transactions.
        The errors are `TargetChanged`, if a table has been emptied, recreated or renamed since, by
        another run or from outside; or `Overtaken`.
        """
        ...

    def drop_left(self, run_ids: Sequence[str]) -> None:
        """Drop what stopped runs have built beside their tables, as far as possible at once.

        Args:
            run_ids: runs whose tables another run is about to replace.
        """
        ...

    def is_intact(self, run_id: str) -> bool:
        """Whether a crash of the target has left a volatile load intact."""
        ...

    def losses(self, run_ids: Sequence[str], *, counted: bool) -> Mapping[str, Loss]:
        """Look again at the tables of runs that have committed every partition.

        Args:
            run_ids: the runs.
            counted: whether to count the rows, which reads the tables; otherwise only whether
                there are any.

        Returns:
            what is missing, by run; nothing for runs whose rows are there as far as can be told.
        """
        ...


class Recopies(Protocol):
    """Requests to copy partitions again."""

    def of(self, run_id: str, request: str) -> frozenset[str]:
        """Return the ids of the partitions for which a request to copy them again was recorded."""
        ...

    def check(self, run_id: str) -> None:
        """Check that partitions of a run can be copied again.

        Raises:
            UsageError: the run's table is no longer where, or what, it was when the partitions were
                loaded.
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
        """Take back the commits of some partitions, once per request.

        This is one transaction, which waits for open attempts.

        Args:
            run_id: the id of the run.
            partition_ids: the ids of the partitions.
            request: identifies the request, whichever process repeats it.
            rows_of: the table from which the partitions' rows are deleted; None to leave them
                to later attempts.
            patience: seconds to wait for open attempts; 0 for no limit.

        Returns:
            the ids of the partitions whose commit records are gone.

        Raises:
            UsageError: as for `check`.
            PermanentError: the table's rows are not those that were committed. Nothing was changed.
        """
        ...


class Presence(Protocol):
    """The runs and attempts that are active now."""

    def enter(
        self, tables: Mapping[str, TableRef], check: Callable[[str, Sequence[str]], None]
    ) -> Mapping[str, PenstockError]:
        """Register this process as executing runs, until this store's catalog closes.

        Several processes may execute one run. The registration ends with the process, for any
        reason.

        Args:
            tables: by run, the table that it will finally change, wherever its rows are loaded
                first.
            check: called with the id of a run and the ids of other runs being executed on its
                table, while no other run can enter. If it raises, this run does not enter.

        Returns:
            the errors that `check` raised, by run.
        """
        ...

    def leave(self, tables: Mapping[str, TableRef]) -> None:
        """Leave the tables, for runs that need nothing more from this process."""
        ...

    def is_at_work(self, run_id: str, table: TableRef) -> bool | None:
        """Whether a process is executing a run on a table now; None if unknown.

        Args:
            run_id: the id of the run.
            table: the table passed to `enter`.
        """
        ...

    def take_turns(self, names: Sequence[str]) -> frozenset[str]:
        """Take locks, which only one process has at a time, until the catalog closes; never wait.

        They end with the process, for any reason. Where sessions hold no locks they may be leases,
        or all be granted: what they protect is then only done more than once, which does no harm.

        Args:
            names: what is to be done by one process, such as the end of a run.

        Returns:
            the names that this process has now.
        """
        ...

    def end_turns(self, names: Sequence[str]) -> None:
        """Let others take turns that this process has; it need not have them."""
        ...

    def running_attempts(self, run_id: str) -> tuple[RunningAttempt, ...]: ...


class ControlStore(Protocol):
    """Everything that a target stores about runs, in one part per subject."""

    patience: Patience
    """How long calls wait for others; may be set at any time."""
    batch_id: str
    """The batch that the runs in this store belong to; empty if there is none.

    Changes to several of its runs are made together, in a session named after it.
    """

    @property
    def closable_during_calls(self) -> bool:
        """Whether another thread may close the catalog while a call waits for the server."""
        ...

    def create(self) -> None:
        """Create the missing control tables.

        Raises:
            PlanningError: the user may not; says what an administrator can do.
        """
        ...

    @property
    def runs(self) -> Runs: ...

    @property
    def generations(self) -> Generations: ...

    @property
    def commits(self) -> Commits: ...

    @property
    def steps(self) -> Steps: ...

    @property
    def nights(self) -> Nights: ...

    @property
    def tables(self) -> LoadedTables: ...

    @property
    def recopies(self) -> Recopies: ...

    @property
    def presence(self) -> Presence: ...

    @property
    def watermarks(self) -> Watermarks: ...

    @property
    def journals(self) -> Journals: ...
