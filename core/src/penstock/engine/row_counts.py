"""One count of all rows of a run's source, taken while its partitions are copied."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from penstock.backends.api.source import SourceCatalog
from penstock.engine.snapshot.source_view import SourceView
from penstock.engine.state import RunState
from penstock.errors import PenstockError
from penstock.model.extents import Whole
from penstock.model.snapshots import Snapshot

# Seconds that a count may take to finish at the end.
LEAVE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class _Count:
    """The count of one run.

    Attributes:
        rows: the number of rows; None if nothing could be counted.
    """

    run_id: str
    view: SourceView
    snapshot: Snapshot
    rows: Future[int | None] = field(default_factory=Future)


class RowCounts:
    """Row counts, taken on a separate thread, one run after another, over one connection.

    Runs that cannot be counted now are counted after the last partition.
    """

    def __init__(self, runs: Sequence[RunState]) -> None:
        self._counts = [
            _Count(run.run_id, run.view, run.view.snapshot)
            for run in runs
            if run.awaits_count and run.view.snapshot is not None
        ]
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._source: SourceCatalog | None = None
        self._thread: threading.Thread | None = None
        if self._counts:
            self._thread = threading.Thread(
                target=self._run, daemon=True, name="penstock: count of all rows"
            )
            self._thread.start()

    def of(self, run_id: str, snapshot: Snapshot | None) -> int | None:
        """Return the number of a run's rows as of this snapshot; None if they are not counted."""
        for count in self._counts:
            if count.run_id == run_id and count.snapshot == snapshot:
                return count.rows.result()
        return None

    def close(self) -> None:
        """End a count in progress."""
        with self._lock:
            self._over.set()
            if self._source is not None:
                self._source.close()
        if self._thread is not None:
            self._thread.join(LEAVE_SECONDS)

    def _run(self) -> None:
        try:
            for count in self._counts:
                count.rows.set_result(self._count(count))
        finally:
            for count in self._counts:
                if not count.rows.done():
                    count.rows.set_result(None)

    def _count(self, count: _Count) -> int | None:
        # Any error shows again later, when the rows are counted with nothing else going on.
        with contextlib.suppress(PenstockError):
            source = self._open_source(count.view)
            if source is not None:
                count.view.enter(source)
                spec = count.view.spec
                return source.checksum(
                    spec.relation, count.view.plan.where(spec.where), Whole(), ()
                ).rows
        return None

    def _open_source(self, view: SourceView) -> SourceCatalog | None:
        """Return the open source, unless the count is no longer needed."""
        with self._lock:
            if self._over.is_set():
                return None
            if self._source is not None:
                return self._source
        opened = view.open()
        with self._lock:
            if not self._over.is_set():
                self._source = opened
                return opened
        opened.close()
        return None
