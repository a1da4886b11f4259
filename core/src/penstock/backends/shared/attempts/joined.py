"""The transactional way to commit, for many small tables: one transaction for a group of them.

A group is worth a try, not a promise: whatever is in the way of one of its partitions, nothing of
it is committed, and each partition is copied by an attempt of its own, which waits, and reports.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.backends.api.execution.attempt import Attempt, JoiningHooks
from penstock.backends.api.worker import LoadResult, Wait
from penstock.backends.shared.attempts.transactional import TransactionalWriter
from penstock.errors import TransientError
from penstock.model.plans import Partition
from penstock.spec.worker_spec import WorkerSpec


class JoinedWriter(TransactionalWriter):
    """See `JoiningWriter`."""

    hooks: JoiningHooks

    def __init__(self, spec: WorkerSpec, hooks: JoiningHooks) -> None:
        super().__init__(spec, hooks)
        self._group: list[Attempt] = []

    def begin_group(
        self, attempts: Sequence[tuple[WorkerSpec, Partition, int]], wait: Wait
    ) -> bool:
        self._group = [Attempt(*each) for each in attempts]
        with wait.answering("target"):
            self.hooks.connect(self._group[0])
            with self.hooks.translated():
                return self.hooks.begin_all(self._group)

    def enter(self, number: int, wait: Wait) -> None:
        attempt = self._group[number]
        self.switch_run(attempt.spec)
        with self.hooks.translated():
            self._open(attempt, wait)

    def commit_group(self, results: Sequence[tuple[LoadResult, int]], wait: Wait) -> None:
        with self.hooks.translated(), wait.answering("target"):
            if not self.hooks.commit_all(self._group, results):
                raise TransientError("target: a table of the group has changed")
