"""The hooks by which a database takes part in an attempt carried out by shared code.

A worker's `Writer` is shared code: `backends.shared.attempts.transactional`,
`backends.shared.attempts.staged` and `backends.roll_forward.writer`. It decides the order of
operations; the hooks here perform each operation for one database. A backend uses the first of
these ways that it can guarantee:

- *transactional*: rows and commit record are written in one transaction, on one session;
- *staged*: rows go to a place that belongs to the attempt, by any means the bulk loader needs, and
  from there into the table in one transaction with the commit record;
- *roll-forward*: the two cannot be written at once, so the record names what completes the load
  (`backends.api.execution.roll_forward`).

All hooks raise Penstock's errors, or raise the driver's inside `translated`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol, TypeVar

from penstock.backends.api.worker import Block, LoadResult, Wait
from penstock.errors import PenstockError
from penstock.model.plans import Partition
from penstock.spec.worker_spec import WorkerSpec

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try at one partition by one worker."""

    spec: WorkerSpec
    partition: Partition
    number: int
    """Counted from 1 by the supervisor; attempts of two executions may have the same number."""
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def lock(self) -> str:
        """The name of the lock that only one attempt at a time can hold."""
        return f"penstock:{self.spec.run_id}:{self.partition.id}"

    @property
    def name(self) -> str:
        """The attempt's name, for a session; it begins with the lock's name."""
        return f"{self.lock}:{self.number}"


@dataclass(frozen=True, slots=True)
class Standing:
    """The state of an attempt's run and partition, according to the control store."""

    generation: int | None
    """The run's generation; None if the run does not exist."""
    committed: bool
    """Whether the partition has a commit record of the run, or of another one of its series."""
    loaded_by: tuple[str, str] | None = None
    """The other run of the series that committed the partition, and when."""
    loss: PenstockError | None = None
    """The error if the run's commit records do not count, because a crash has removed the rows."""


@dataclass(frozen=True, slots=True)
class BeginResult:
    """The state of an attempt after its beginning: unobstructed, or rolled back."""

    older_attempts: Mapping[Any, object] | None = None
    """Older attempts at the partition; see `AttemptLock.lock`."""
    standing: Standing | None = None
    """The reason why the commit record could not be inserted."""


class Write(Protocol):
    """A function that moves one block into the target, calling `wait` when it has to wait."""

    def __call__(self, block: Block, wait: Wait) -> None: ...


class LoadStream(Protocol):
    """A stream that takes the blocks of one attempt. A writer's `write` is this method itself."""

    def fileno(self) -> int:
        """See `Writer.fileno`."""
        ...

    def check(self) -> None:
        """See `Writer.check`."""
        ...

    def write(self, block: Block, wait: Wait) -> None: ...

    def end(self, wait: Wait) -> int:
        """End the stream; return the exact number of rows that the target accepted."""
        ...


class AttemptLock(Protocol):
    """The way in which attempts at a partition find each other."""

    def lock(self, attempt: Attempt) -> Mapping[Any, object] | None:
        """Lock the partition without waiting.

        The lock must end with the process or its session for any reason: nothing else cleans up
        after a kill.

        Returns:
            None if this attempt has now locked the partition; otherwise the older attempts at
        the same partition that are certainly in the way, each with signs that change while it makes
        progress. There may be others in the way.
        """
        ...

    def end_older(self, attempt: Attempt, older: Any) -> None:
        """End an older attempt that has made no progress for the grace time.

        It can then never commit. It may already be gone.

        Raises:
            TransientError: the user may not end it.
        """
        ...


class TransactionalHooks(Protocol):
    """Hooks with one session in the target for many partitions, and one transaction per attempt.

    A kill at any moment from `begin` to `commit` leaves nothing of the attempt behind, since the
    database rolls it back.
    """

    def switch_run(self, spec: WorkerSpec) -> None:
        """Prepare the session for another run: forget what was learned about the last one."""
        ...

    def translated(self) -> AbstractContextManager[None]:
        """Translate a driver's errors to Penstock's."""
        ...

    def connect(self, attempt: Attempt) -> None:
        """Open the session under the attempt's name, if there is none."""
        ...

    def begin(self, attempt: Attempt) -> BeginResult:
        """Begin the attempt's transaction, in as few round trips as possible.

        It locks the partition without waiting; inserts the commit record, and locks the run's row
        so that the run cannot be restarted before the transaction ends; and checks that the table
        is the one the run was prepared for. An attempt without the lock inserts nothing. An attempt
        that could not determine the record's state waits for the transaction that inserted it, and
        then finds it or finds it gone.

        The lock must end with the process or its session, as for `AttemptLock`.

        Raises:
            TargetChanged: as in `LoadedTables.check`.
        """
        ...

    def end_older(self, attempt: Attempt, older: Any) -> None:
        """See `AttemptLock`."""
        ...

    def delete(self, attempt: Attempt, wait: Wait) -> None:
        """In mode `replace`, delete the rows that the partition's predicate selects."""
        ...

    def open_stream(self, attempt: Attempt, wait: Wait) -> LoadStream:
        """Begin to load.

        Rows go into the table, or, if the mode's entry `loads_apart`, into a table of the attempt,
        which ends with the transaction if that does not commit.
        """
        ...

    def delete_other_rows(self, attempt: Attempt, rows: int, wait: Wait) -> int:
        """In mode `replace`, after the load, delete rows that others have committed since.

        Only rows within the predicate are deleted, by one attempt at a time.

        Args:
            attempt: the attempt.
            rows: the number of rows that this attempt has loaded.
            wait: waits until a socket is ready, and raises `StallError`.

        Returns:
            how many rows within the predicate still belong to others.
        """
        ...

    def merge(self, attempt: Attempt, rows: int, wait: Wait) -> LoadResult:
        """If the mode's entry `loads_apart`, merge after the load.

        Upsert: update the rows that differ, and insert the others. Attach: make the loaded table a
        child of the table.

        Args:
            attempt: the attempt.
            rows: the rows that the attempt has loaded.
            wait: waits until a socket is ready, and raises `StallError`.

        Raises:
            PermanentError: a key is NULL or a duplicate; rows are missing afterwards; or the
                child's place is taken by other rows.
        """
        ...

    def commit(self, attempt: Attempt, result: LoadResult, bytes: int) -> bool:
        """Check the table again under the locks of the load, then commit with a complete record.

        After a kill before the commit, nothing is there; after a later one, the record says that
        the partition is done, and the next attempt finds that.

        Args:
            attempt: the attempt.
            result: the rows that the target took.
            bytes: the bytes that were sent.

        Returns:
            False if there was no record to complete; then nothing is committed.

        Raises:
            TargetChanged: as for `begin`.
        """
        ...

    def abandon(self) -> None:
        """See `Writer.abandon`."""
        ...


class JoiningHooks(TransactionalHooks, Protocol):
    """Hooks of a database that commits small partitions of several tables in one transaction."""

    def begin_all(self, attempts: Sequence[Attempt]) -> bool:
        """Begin one transaction as `begin` would for each attempt, without waiting.

        The session has a name by which all runs of the attempts' batch know it.

        Returns:
            whether every partition is locked, its commit record inserted, and its table unchanged;
            otherwise the transaction is rolled back.
        """
        ...

    def commit_all(
        self, attempts: Sequence[Attempt], results: Sequence[tuple[LoadResult, int]]
    ) -> bool:
        """Check all tables again under the locks of the load, then commit; see `commit`.

        Args:
            attempts: the attempts.
            results: for each the rows that the target took, and the bytes that were sent.

        Returns:
            False if a table has changed, or there was no record to complete; then nothing is
            committed.
        """
        ...


class Stage(LoadStream, Protocol):
    """The place where an attempt's rows wait to be loaded: a table, a file, objects in a bucket.

    Its name identifies its run, partition and attempt. It is alive as long as its attempt holds
    something that ends with the process: a lock on a file, or a session's lock. Only its own
    attempt reads it, so the stage of a killed attempt does no harm until `StagedHooks.sweep`
    removes it.
    """

    def check_held(self) -> None:
        """Check, in the transaction that loads the stage, before the first change.

        Raises:
            TransientError: a newer attempt has taken the stage away.
        """
        ...

    def remove(self) -> None:
        """Remove the stage, unless another process has.

        Called after the commit, or when the attempt is abandoned. Raises nothing.
        """
        ...


class StagedTransaction(Protocol):
    """A transaction that loads the stage. After a kill before `commit`, nothing of it is there."""

    def standing(self, attempt: Attempt) -> Standing:
        """Return the attempt's standing, and hold it until the transaction ends.

        Lock the run's row, so that the run cannot be restarted, and ensure that no other attempt
        commits the partition.
        """
        ...

    def check_target(self, attempt: Attempt) -> None:
        """Check that the table is still the one the run was prepared for.

        Raises:
            TargetChanged: as in `LoadedTables.check`.
        """
        ...

    def begin_changes(self, attempt: Attempt) -> None:
        """Prepare for changes of the table.

        Called before the first one, in every mode, to record what other runs that load the table
        need.
        """
        ...

    def delete(self, attempt: Attempt) -> None:
        """In mode `replace`, delete the rows that the partition's predicate selects."""
        ...

    def insert(self, attempt: Attempt, stage: Any) -> int:
        """Insert the staged rows; return their exact number."""
        ...

    def count_selected(self, attempt: Attempt) -> int:
        """In mode `replace`, after the load, count the rows that the predicate selects."""
        ...

    def merge(self, attempt: Attempt, stage: Any) -> LoadResult:
        """In mode `upsert`, update the rows that differ from the staged ones, and insert the rest.

        Raises:
            PermanentError: a key is NULL or a duplicate.
        """
        ...

    def insert_record(self, attempt: Attempt, result: LoadResult, bytes: int) -> None:
        """Insert the commit record, unless there is one.

        Called last before `commit`.

        Args:
            attempt: the attempt.
            result: the rows that the target took.
            bytes: the bytes that were sent.
        """
        ...

    def commit(self) -> None:
        """Commit.

        A kill before it leaves only the stage; after it, the record says that the partition is
        done, and the stage is swept.
        """
        ...


class StagedHooks(AttemptLock, Protocol):
    """Hooks for a target whose bulk loader works outside the transaction of the commit record."""

    unseen_bytes: int
    """For a partition of at most this many planned bytes, the first attempt checks whether it is
    due only when it loads the stage, because checking before costs more than staging.
    """

    def sweep(self) -> None:
        """Remove the stages of dead attempts of all runs.

        Called when an attempt begins, which holds its partition's lock, and by a control store when
        an execution ends. So the remains of a kill are removed by the next run, or by a `resume`
        that has nothing more to copy.
        """
        ...

    def open_stage(self, attempt: Attempt, wait: Wait) -> Stage:
        """Create an empty stage for an attempt.

        It must never look like a dead attempt's in between.
        """
        ...

    def reading(self, attempt: Attempt) -> AbstractContextManager[StagedTransaction]:
        """Open the control store and the table for reading."""
        ...

    def writing(self, attempt: Attempt) -> AbstractContextManager[StagedTransaction]:
        """Open a transaction; without a commit it is rolled back."""
        ...

    def compute(self, call: Callable[[], T], wait: Wait) -> T:
        """Make a call that may take long, during which the attempt can be canceled."""
        ...

    def interrupt(self) -> None:
        """Cancel what `compute` is doing. May be called at any time."""
        ...
