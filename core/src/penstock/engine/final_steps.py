"""The steps after the last partition: indexes, constraints, the swap; some run concurrently."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import copy_context
from dataclasses import dataclass

from penstock.backends.api.target import TargetCatalog
from penstock.errors import LoadLost, Overtaken, PenstockError, TooManyConnections
from penstock.events import Event, StepChanged
from penstock.model.plans import Step
from penstock.workers.backoff import backoff

# Seconds for which a step that blocks others is retried: readers come and go.
URGENT_SECONDS = 300.0
LISTEN = 0.5


@dataclass(frozen=True, slots=True)
class _Task:
    run_id: str
    step: Step


class FinalSteps:
    """The steps of one run or of many; those of a run are done in the order of their ranks.

    Args:
        steps: the steps that are not done yet, by run.
        open_catalog: opens a connection to the target, one for each thread.
        degree: the number of concurrent steps.
        attempts: the number of attempts for each step, if errors are transient.
    """

    def __init__(
        self,
        steps: Mapping[str, Sequence[Step]],
        open_catalog: Callable[[], TargetCatalog],
        *,
        degree: int,
        attempts: int,
    ) -> None:
        self._remaining = {
            run_id: sorted(run_steps, key=lambda step: step.rank)
            for run_id, run_steps in steps.items()
        }
        self._open_catalog = open_catalog
        self._attempts = attempts
        self._ready: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        self._events: queue.SimpleQueue[tuple[_Task, Event, PenstockError | None]] = (
            queue.SimpleQueue()
        )
        self._catalogs: set[TargetCatalog] = set()
        self._ended = threading.Event()
        most = sum(map(len, self._remaining.values()))
        self._threads = [
            threading.Thread(target=copy_context().run, args=(self._work,), daemon=True)
            for _ in range(min(degree, most))
        ]
        self._working = len(self._threads)
        self._retiring = threading.Lock()
        self.failures: dict[str, PenstockError] = {}
        """By run: the error of the first step that failed permanently."""
        self.skipped: dict[str, list[tuple[Step, PenstockError]]] = {}
        """By run: failed steps that the run can do without."""

    def run(self) -> Iterator[Event]:
        """Yield events until every step is done or a run's step has failed.

        Closing the iterator cancels running steps.
        """
        under_way = {run_id: self._next_rank(run_id) for run_id in self._remaining}
        for thread in self._threads:
            thread.start()
        try:
            while any(under_way.values()):
                try:
                    task, event, error = self._events.get(timeout=LISTEN)
                except queue.Empty:
                    continue
                yield event
                if not isinstance(event, StepChanged) or event.state not in ("done", "failed"):
                    continue
                under_way[task.run_id] -= 1
                if error is not None and task.step.instead and not isinstance(error, LoadLost):
                    self.skipped.setdefault(task.run_id, []).append((task.step, error))
                elif error is not None:
                    self.failures.setdefault(task.run_id, error)
                if under_way[task.run_id] == 0 and task.run_id not in self.failures:
                    under_way[task.run_id] = self._next_rank(task.run_id)
        finally:
            self._end()

    def _next_rank(self, run_id: str) -> int:
        """Hand out the run's steps of the lowest remaining rank. Return how many there are."""
        remaining = self._remaining[run_id]
        if not remaining:
            return 0
        now = [step for step in remaining if step.rank == remaining[0].rank]
        self._remaining[run_id] = remaining[len(now) :]
        for step in now:
            self._ready.put(_Task(run_id, step))
        return len(now)

    def _end(self) -> None:
        self._ended.set()
        for _ in self._threads:
            self._ready.put(None)
        for catalog in list(self._catalogs):
            catalog.close()  # cancels its statement
        for thread in self._threads:
            thread.join(2.0)

    def _work(self) -> None:
        catalog: TargetCatalog | None = None
        while (task := self._ready.get()) is not None and not self._ended.is_set():
            started = time.monotonic()
            self._emit(task, "started", started)
            attempt = 0
            while True:
                attempt += 1
                try:
                    if catalog is None:
                        catalog = self._open_catalog()
                        self._catalogs.add(catalog)
                    catalog.control.steps.finish(task.run_id, task.step)
                except PenstockError as error:
                    self._forget(catalog)
                    catalog = None
                    if self._ended.is_set():
                        return
                    if isinstance(error, TooManyConnections) and self._retire():
                        # Retry with fewer connections: another thread will take this step.
                        self._emit(task, "retrying", started, error)
                        self._ready.put(task)
                        return
                    if not self._is_retried(task, error, attempt, started):
                        self._emit(task, "failed", started, error)
                        break
                    self._emit(task, "retrying", started, error)
                    self._ended.wait(backoff(min(attempt, 3)))
                else:
                    self._emit(task, "done", started)
                    break
        self._forget(catalog)

    def _retire(self) -> bool:
        """Leave the work to other threads; return False if this one is the last."""
        with self._retiring:
            if self._working == 1:
                return False
            self._working -= 1
            return True

    def _is_retried(self, task: _Task, error: PenstockError, attempt: int, started: float) -> bool:
        if not error.transient or isinstance(error, Overtaken):
            return False
        if task.step.urgent:
            return time.monotonic() - started < URGENT_SECONDS
        return attempt < self._attempts

    def _forget(self, catalog: TargetCatalog | None) -> None:
        if catalog is not None:
            self._catalogs.discard(catalog)
            with contextlib.suppress(PenstockError):
                catalog.close()

    def _emit(
        self, task: _Task, state: str, started: float, error: PenstockError | None = None
    ) -> None:
        event = StepChanged(
            run_id=task.run_id,
            step_id=task.step.id,
            step=task.step.name,
            state=state,
            seconds=round(time.monotonic() - started, 3),
            message=error.message if error else "",
        )
        self._events.put((task, event, error if state == "failed" else None))
