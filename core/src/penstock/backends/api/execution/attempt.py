"""The hooks by which a database takes part in an attempt that shared code carries out.

A worker's `Writer` is shared code: `backends.shared.transactional`, `backends.shared.staged` and
`backends.roll_forward.writer`. It decides what happens in which order; the hooks here say how one
database does each of these things. A backend chooses the first of the ways that it can keep:

- *transactional*: rows and commit record are written in one transaction, on one session;
- *staged*: rows go to a place of the attempt's own, over whatever the bulk loader wants, and from
  there into the table in one transaction with the commit record;
- *roll-forward*: nothing can write both at once; the record says what completes the load
  (`backends.roll_forward.hooks`).

All hooks raise Penstock's errors, or raise the driver's within `translated`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol, TypeVar

from penstock.backends.api.worker import Block, Loaded, Wait
from penstock.errors import PenstockError
from penstock.model.plans import Partition
from penstock.spec.worker_spec import WorkerSpec

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try at one partition, by one worker."""

    spec: WorkerSpec
    partition: Partition
    number: int
    """Counted from 1 by the supervisor; two attempts of two executions may have the same."""
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def lock(self) -> str:
        """The name of what one attempt at a time may hold."""
        return f"penstock:{self.spec.run_id}:{self.partition.id}"

    @property
    def name(self) -> str:
        """The attempt's name, for a session: it begins with that of the lock."""
        return f"{self.lock}:{self.number}"


@dataclass(frozen=True, slots=True)
class Standing:
    """What the control store says of an attempt's run and partition."""

    generation: int | None
    """None: there is no such run."""
    committed: bool
    """There is a commit record of the partition, by the run or by another one of its series."""
    loaded_by: tuple[str, str] | None = None
    """The run that has committed the partition, and when, if it is another one of the series."""
    lost: PenstockError | None = None
    """Why the run's commit records do not count: a crash has taken the rows."""


@dataclass(frozen=True, slots=True)
class Begun:
    """How an attempt has begun: with nothing in its way, or rolled back."""

    older: Mapping[Any, object] | None = None
    """Older attempts of the partition; see `AttemptLock.lock`."""
    standing: Standing | None = None
    """Why the commit record could not be inserted."""


class Write(Protocol):
    def __call__(self, block: Block, wait: Wait) -> None: ...


class LoadStream(Protocol):
    """Takes the blocks of one attempt. A writer's `write` is this one's: nothing comes between."""

    def fileno(self) -> int:
        """See `Writer.fileno`."""
        ...

    def check(self) -> None:
        """See `Writer.check`."""
        ...

    def write(self, block: Block, wait: Wait) -> None: ...

    def end(self, wait: Wait) -> int:
        """End the stream. Returns the exact number of rows that the target has taken."""
        ...


class AttemptLock(Protocol):
    """How attempts of one partition find each other."""

    def lock(self, attempt: Attempt) -> Mapping[Any, object] | None:
        """Lock the partition without waiting.

        What locks must end with the process or its session, however that ends: nobody cleans up
        after a kill.

        Returns: None where the partition is locked by this attempt now; else the older attempts of
            the same partition that are known for sure to be in the way, each with signs that change
            while it makes progress. Others may be in the way besides.
        """
        ...

    def end_older(self, attempt: Attempt, older: Any) -> None:
        """End an older attempt that has made no progress for the grace time, so that it can never
        commit. It may be gone already.

        Raises:
            TransientError: this user may not.
        """
        ...


class TransactionalHooks(Protocol):
    """One session in the target, kept for many partitions, with one transaction for each attempt.

    A kill at any moment from `begin` to `commit` leaves nothing of the attempt, since the database
    rolls back what is not committed.
    """

    def switch_run(self, spec: WorkerSpec) -> None:
        """Another run follows on the same session: forget what was found out of the last one."""
        ...

    def translated(self) -> AbstractContextManager[None]:
        """Raises a driver's errors as Penstock's."""
        ...

    def connect(self, attempt: Attempt) -> None:
        """Open the session where there is none, under the attempt's name."""
        ...

    def begin(self, attempt: Attempt) -> Begun:
        """Begin the attempt's transaction, in as few round trips as the database can.

        In it: lock the partition without waiting; insert the commit record, and hold the run's row
        so that nobody starts the run over before the transaction ends; check that the table is the
        one that the run was prepared for. An attempt without the lock inserts nothing. One that
        could not find out waits here for the one that has inserted the record, and finds it, or
        finds it gone.

        The lock must end with the process or its session, as that of `AttemptLock`.

        Raises:
            TargetChanged: see `ControlStore.check_target`.
        """
        ...

    def end_older(self, attempt: Attempt, older: Any) -> None:
        """See `AttemptLock`."""
        ...

    def delete(self, attempt: Attempt, wait: Wait) -> None:
        """In mode `replace`: delete what the partition's predicate selects."""
        ...

    def open_stream(self, attempt: Attempt, wait: Wait) -> LoadStream:
        """Begin to load: into the table, or in a mode that `loads_apart` into one of the attempt's
        own, which ends with the transaction if that does not commit."""
        ...

    def leave_only(self, attempt: Attempt, rows: int, wait: Wait) -> int:
        """In mode `replace`, after the load: delete what other runs have committed within the
        predicate since, one attempt at a time.

        Parameters:
            rows: that this attempt has loaded.

        Returns: how many rows within the predicate are still not this attempt's.
        """
        ...

    def merge(self, attempt: Attempt, rows: int, wait: Wait) -> Loaded:
        """In a mode that `loads_apart`, after the load. Upsert: update the rows that differ, insert
        the others. Attach: make what was loaded a child of the table.

        Raises:
            PermanentError: a key is NULL, or there twice, or rows are not there afterwards; others
                have rows where the child is to be.
        """
        ...

    def commit(self, attempt: Attempt, loaded: Loaded, bytes: int) -> bool:
        """Check the table again, now that the locks of the load keep it as it is; complete the
        commit record; commit.

        Killed before it, nothing is there; killed after it, the record says that the partition is
        done, and the next attempt finds that.

        Returns: False where the record was not there to be completed; then nothing is committed.

        Raises:
            TargetChanged: see `begin`.
        """
        ...

    def abandon(self) -> None:
        """See `Writer.abandon`."""
        ...


class Stage(LoadStream, Protocol):
    """Where one attempt's rows are until they are loaded: a table, a file, objects in a bucket.

    Its name says its run, partition and attempt, so that whoever finds it knows whose it is. It is
    alive as long as something is held by its attempt that ends with the process: a lock on a file,
    a lock of a session. Nobody reads it but its own attempt, so what a killed one leaves behind
    does no harm: `StagedHooks.sweep` removes it.
    """

    def check_held(self) -> None:
        """Called in the transaction that loads it, before the first change.

        Raises:
            TransientError: a newer attempt has taken the stage away.
        """
        ...

    def remove(self) -> None:
        """Remove it, unless somebody else has. Called after the commit, or when the attempt is
        abandoned. Raises nothing."""
        ...


class StagedTransaction(Protocol):
    """A transaction that loads what is staged. Killed before `commit`, nothing of it is there."""

    def standing(self, attempt: Attempt) -> Standing:
        """Where it is to load: hold the run's row, so that nobody starts the run over, and see to
        it that no other attempt commits the partition before this transaction ends."""
        ...

    def check_target(self, attempt: Attempt) -> None:
        """
        Raises:
            TargetChanged: see `ControlStore.check_target`.
        """
        ...

    def begin_changes(self, attempt: Attempt) -> None:
        """Called before the first change of the table, in every mode: note what is to be noted of
        the table as it is, for other runs that load it."""
        ...

    def delete(self, attempt: Attempt) -> None:
        """In mode `replace`: delete what the partition's predicate selects."""
        ...

    def insert(self, attempt: Attempt, stage: Any) -> int:
        """Insert what is staged. Returns the exact number of rows."""
        ...

    def count_selected(self, attempt: Attempt) -> int:
        """In mode `replace`, after the load: how many rows the partition's predicate selects."""
        ...

    def merge(self, attempt: Attempt, stage: Any) -> Loaded:
        """In mode `upsert`: update the rows that differ from what is staged, insert the others.

        Raises:
            PermanentError: a key is NULL, or there twice.
        """
        ...

    def insert_record(self, attempt: Attempt, loaded: Loaded, bytes: int) -> None:
        """Called last before `commit`: insert the commit record, which is refused where there is
        one already."""
        ...

    def commit(self) -> None:
        """Killed before it, the stage alone is left; killed after it, the record says that the
        partition is done, and the stage is swept."""
        ...


class StagedHooks(AttemptLock, Protocol):
    """A target whose bulk loader cannot take part in the transaction of the commit record."""

    unseen_bytes: int
    """The first attempt of a partition of at most as many bytes, as planned, looks whether it is
    due when it loads it, and not before it stages it, too: to look costs more than to stage."""

    def sweep(self) -> None:
        """Remove the stages of attempts that are dead, of whatever run.

        Called when an attempt begins, which holds its partition's lock. A control store calls it
        too, where an execution ends: so what a kill leaves behind goes with the next run, or with a
        `resume` that has nothing more to copy.
        """
        ...

    def open_stage(self, attempt: Attempt, wait: Wait) -> Stage:
        """Make an empty stage for an attempt. Nobody may take it for a dead one's in between."""
        ...

    def reading(self, attempt: Attempt) -> AbstractContextManager[StagedTransaction]:
        """To look at the control store and the table; nothing is changed."""
        ...

    def writing(self, attempt: Attempt) -> AbstractContextManager[StagedTransaction]:
        """A transaction; where it is left without a commit, it is rolled back."""
        ...

    def compute(self, call: Callable[[], T], wait: Wait) -> T:
        """Make a call that may take long, so that the attempt can be cancelled meanwhile."""
        ...

    def interrupt(self) -> None:
        """End whatever `compute` is doing. May be called at any time."""
        ...
