"""The steps after the last partition for many small tables, in transactions of many tables."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from contextvars import copy_context

from penstock.backends.api.target import TargetCatalog
from penstock.errors import PenstockError
from penstock.events import Event, StepChanged
from penstock.model.plans import Step

# Maximum number of tables in one transaction, which locks all of them.
MOST = 50
LISTEN = 0.5
LEAVE_SECONDS = 2.0

Steps = Mapping[str, Sequence[Step]]
"""Steps by run."""


class BatchedSteps:
    """The steps that can be done together; others are left, and report errors when done alone.

    Args:
        steps: by run, in the order of their ranks.
        open_catalog: opens a connection to the target, one for each thread.
        degree: the number of concurrent transactions; 1 if runs lock each other's tables.
        catalog: an open catalog, used if there is one transaction at a time: it saves a connection.
    """

    def __init__(
        self,
        steps: Steps,
        open_catalog: Callable[[], TargetCatalog],
        *,
        degree: int,
        catalog: TargetCatalog,
    ) -> None:
        self._shared_catalog = catalog if degree == 1 else None
        self.done: set[str] = set()
        """The runs whose steps are done."""
        self._open_catalog = open_catalog
        self._degree = degree
        self._groups: queue.SimpleQueue[Steps] = queue.SimpleQueue()
        self._over: queue.SimpleQueue[tuple[Steps, frozenset[str], float] | None] = (
            queue.SimpleQueue()
        )
        run_ids = [run_id for run_id, run_steps in steps.items() if run_steps]
        size = min(MOST, max(2, -(-len(run_ids) // degree)))
        for start in range(0, len(run_ids), size):
            self._groups.put({run_id: steps[run_id] for run_id in run_ids[start : start + size]})
        self._catalogs: list[TargetCatalog] = []
        self._ended = threading.Event()

    def run(self) -> Iterator[Event]:
        """Yield events until every group was tried. Closing the iterator cancels running steps."""
        threads = [
            threading.Thread(target=copy_context().run, args=(self._work,), daemon=True)
            for _ in range(min(self._degree, self._groups.qsize()))
        ]
        for thread in threads:
            thread.start()
        working = len(threads)
        try:
            while working:
                try:
                    group = self._over.get(timeout=LISTEN)
                except queue.Empty:
                    continue
                if group is None:
                    working -= 1
                else:
                    yield from self._events(*group)
        finally:
            self._ended.set()
            if working:
                for catalog in list(self._catalogs):
                    catalog.close()  # cancels its statement
            for thread in threads:
                thread.join(LEAVE_SECONDS)

    def _events(self, group: Steps, done: frozenset[str], seconds: float) -> Iterator[Event]:
        self.done |= done
        count = sum(len(group[run_id]) for run_id in done)
        for run_id in done:
            for step in group[run_id]:
                for state in ("started", "done"):
                    yield StepChanged(
                        run_id=run_id,
                        step_id=step.id,
                        step=step.name,
                        state=state,
                        seconds=round(seconds / count, 3),
                        message="",
                    )

    def _catalog(self) -> AbstractContextManager[TargetCatalog]:
        return (
            nullcontext(self._shared_catalog)
            if self._shared_catalog
            else closing(self._open_catalog())
        )

    def _work(self) -> None:
        try:
            with self._catalog() as catalog:
                self._catalogs.append(catalog)
                while not self._ended.is_set():
                    group = self._groups.get_nowait()
                    started = time.monotonic()
                    done = catalog.control.steps.finish_together(group)
                    self._over.put((group, done, time.monotonic() - started))
        except (queue.Empty, PenstockError):
            return  # each step reports its own error when it is done alone
        finally:
            self._over.put(None)
