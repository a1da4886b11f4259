"""The transactional way to commit: rows and commit record in one transaction."""

from __future__ import annotations

from collections.abc import Callable

from penstock.backends.api.execution.attempt import Attempt, TransactionalHooks, Write
from penstock.backends.api.worker import LoadResult, Pumped, Wait
from penstock.backends.shared.attempts.older_attempts import await_older
from penstock.backends.shared.attempts.refusals import check_standing, not_replaced, record_missing
from penstock.model.plans import Partition
from penstock.spec.modes import Entry
from penstock.spec.worker_spec import WorkerSpec


class TransactionalWriter:
    """A `Writer` for a database whose sessions load in a transaction.

    The record is inserted before the first row, so that other attempts at the partition wait for
    it, and completed after the last. If the worker is killed before the commit, the database rolls
    back both.
    """

    write: Write
    """The stream's own method, to save a call per block."""
    fileno: Callable[[], int]
    check: Callable[[], None]
    sink: object = None
    """As in `Pumped`."""

    def __init__(self, spec: WorkerSpec, hooks: TransactionalHooks) -> None:
        self._spec = spec
        self.hooks = hooks

    def switch_run(self, spec: WorkerSpec) -> None:
        self._spec = spec
        self.hooks.switch_run(spec)

    def begin(self, partition: Partition, attempt: int, wait: Wait) -> bool:
        hooks = self.hooks
        self._attempt = this = Attempt(self._spec, partition, attempt)
        with wait.answering("target"):
            hooks.connect(this)
        with hooks.translated():
            standing = await_older(hooks.begin, hooks.end_older, this, wait)
            if standing is not None:
                check_standing(this, standing)
                return False
            if self._spec.load_mode.entry is Entry.REPLACE:
                hooks.delete(this, wait)
            self._open(this, wait)
        return True

    def _open(self, attempt: Attempt, wait: Wait) -> None:
        stream = self.hooks.open_stream(attempt, wait)
        self.write, self.fileno, self.check = stream.write, stream.fileno, stream.check
        self._end = stream.end
        self.sink = stream.sink if isinstance(stream, Pumped) else None

    def end(self, wait: Wait) -> LoadResult:
        rows = self._end(wait)
        with self.hooks.translated():
            if self._spec.load_mode.entry.loads_apart:
                return self.hooks.merge(self._attempt, rows, wait)
            if self._spec.load_mode.entry is Entry.REPLACE:
                remaining = self.hooks.delete_other_rows(self._attempt, rows, wait)
                if remaining > 0:
                    raise not_replaced(self._attempt, remaining)
        return LoadResult(rows)

    def commit(self, result: LoadResult, bytes: int, wait: Wait) -> None:
        with self.hooks.translated(), wait.answering("target"):
            if not self.hooks.commit(self._attempt, result, bytes):
                raise record_missing(self._attempt)

    def abandon(self) -> None:
        self.hooks.abandon()
