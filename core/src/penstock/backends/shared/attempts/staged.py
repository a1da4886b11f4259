"""The staged way to commit: stage the rows, then load them and the record in one transaction."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, suppress

from penstock.backends.api.execution.attempt import (
    Attempt,
    Stage,
    StagedHooks,
    StagedTransaction,
    Write,
)
from penstock.backends.api.worker import LoadResult, Wait
from penstock.backends.shared.attempts.older_attempts import lock_partition
from penstock.backends.shared.attempts.refusals import (
    already_committed,
    check_standing,
    wrongly_selected,
)
from penstock.errors import PenstockError
from penstock.model.plans import Partition
from penstock.spec.modes import Entry
from penstock.spec.worker_spec import WorkerSpec


class StagedWriter:
    """A `Writer` for a database that loads in bulk outside transactions, or in one at a time.

    Until the transaction begins, only the attempt sees its rows. The transaction checks everything
    again, since the attempt may have been stopped for a long time.
    """

    write: Write
    """The stage's own method, to save a call per block."""
    fileno: Callable[[], int]
    check: Callable[[], None]

    def __init__(self, spec: WorkerSpec, hooks: StagedHooks) -> None:
        self._spec = spec
        self.hooks = hooks
        self._stage: Stage | None = None
        self._open = ExitStack()

    def switch_run(self, spec: WorkerSpec) -> None:
        self._spec = spec

    def begin(self, partition: Partition, attempt: int, wait: Wait) -> bool:
        hooks = self.hooks
        self._attempt = this = Attempt(self._spec, partition, attempt)
        looks = attempt > 1 or partition.bytes is None or partition.bytes > hooks.unseen_bytes
        # Other executions may have committed it since this one began.
        looks = looks or self._spec.leaves_taken
        # Another run of a series may have committed the partition, as may an older attempt during
        # the wait for it.
        looks = not lock_partition(hooks, this, wait) or looks or bool(self._spec.series)
        hooks.sweep()
        if looks and hooks.compute(self._is_committed, wait):
            return False
        self._stage = stage = hooks.open_stage(this, wait)
        self.write, self.fileno, self.check = stage.write, stage.fileno, stage.check
        return True

    def _is_committed(self) -> bool:
        attempt = self._attempt
        with self.hooks.reading(attempt) as transaction:
            standing = transaction.standing(attempt)
            check_standing(attempt, standing)
            if not standing.committed:
                transaction.check_target(attempt)
            return standing.committed

    def end(self, wait: Wait) -> LoadResult:
        """Load what is staged; the transaction stays open until the commit."""
        assert self._stage is not None
        self._stage.end(wait)
        return self.hooks.compute(self._load, wait)

    def _load(self) -> LoadResult:
        attempt, stage = self._attempt, self._stage
        assert stage is not None
        with ExitStack() as stack:
            transaction = stack.enter_context(self.hooks.writing(attempt))
            standing = transaction.standing(attempt)
            check_standing(attempt, standing)
            if standing.committed:
                raise already_committed(attempt)
            stage.check_held()
            transaction.check_target(attempt)
            transaction.begin_changes(attempt)
            loaded = self._load_staged(transaction, stage)
            self._transaction = transaction
            self._open = stack.pop_all()
        return loaded

    def _load_staged(self, transaction: StagedTransaction, stage: Stage) -> LoadResult:
        """Move the rows from the stage into the table, according to the mode."""
        attempt = self._attempt
        entry = self._spec.load_mode.entry
        if entry is Entry.BY_KEY:
            return transaction.merge(attempt, stage)
        if entry is not Entry.REPLACE:
            return LoadResult(transaction.insert(attempt, stage))
        transaction.delete(attempt)
        rows = transaction.insert(attempt, stage)
        selected = transaction.count_selected(attempt)
        if selected != rows:
            raise wrongly_selected(attempt, rows, selected)
        return LoadResult(rows)

    def commit(self, result: LoadResult, bytes: int, wait: Wait) -> None:
        def call() -> None:
            with self._open:
                self._transaction.insert_record(self._attempt, result, bytes)
                self._transaction.commit()

        self.hooks.compute(call, wait)
        self._remove_stage()

    def _remove_stage(self) -> None:
        if self._stage is not None:
            stage, self._stage = self._stage, None
            stage.remove()

    def abandon(self) -> None:
        self.hooks.interrupt()
        with suppress(PenstockError):
            self._open.close()  # without a commit nothing of it stays
        self._remove_stage()
