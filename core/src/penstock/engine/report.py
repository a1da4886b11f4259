"""The results of an execution of a run, gathered from its events."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from penstock.errors import PenstockError, RunFailed, RunFailedTransiently
from penstock.events import (
    Committed,
    Event,
    Failed,
    Finished,
    Merged,
    Opened,
    PartitionFailure,
    PartitionTiming,
    ReadLater,
)
from penstock.model.codec import to_json
from penstock.model.plans import Step
from penstock.model.records import CommitRecord, read_later
from penstock.model.snapshots import Snapshot
from penstock.model.tables import NotCopied

SLOWEST = 10
WHOLE_RUN = "the run"
"""The label of a stored failure that is no partition's."""


class Report:
    """The collection of a run's figures from its events."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._started = time.monotonic()
        self.error: PenstockError | None = None
        """The error that ended the run, unless a failed partition did."""
        self.failures: tuple[PartitionFailure, ...] = ()
        """Why partitions are not committed."""
        self.skipped: list[NotCopied] = []
        """Objects that failed steps should have created, if the run can do without them."""
        self._opened: dict[tuple[str, int], tuple[float, str]] = {}
        self._timings: list[PartitionTiming] = []
        self._attempts = 0
        self._inserted: int | None = None
        self._updated: int | None = None
        self._deleted: int | None = None
        self._busy = self._lost = 0.0

    def begin(self) -> None:
        """Start the reported time: planning is over."""
        self._started = time.monotonic()

    def release(self) -> None:
        """Forget what only `finish` needs."""
        self._opened, self._timings = {}, []

    def add(self, event: Event) -> None:
        """Add an event of the run."""
        if isinstance(event, Merged):
            self._inserted, self._updated = event.inserted, event.updated
            self._deleted = event.deleted
        elif isinstance(event, Opened):
            self._attempts += 1
            self._opened[event.partition_id, event.attempt] = (time.monotonic(), event.label)
        elif isinstance(event, Committed | Failed):
            key = (event.partition_id, event.attempt)
            since, label = self._opened.pop(key, (time.monotonic(), ""))
            # A worker times its attempt by itself, and its first event may arrive late.
            timed = event.seconds if isinstance(event, Committed) else 0.0
            seconds = max(time.monotonic() - since, timed)
            self._busy += seconds
            self._lost += seconds if isinstance(event, Failed) else 0.0
            if isinstance(event, Committed) and event.inserted is not None:
                self._inserted = (self._inserted or 0) + event.inserted
                self._updated = (self._updated or 0) + (event.updated or 0)
            if isinstance(event, Committed) and not event.already:
                self._timings.append(
                    PartitionTiming(
                        partition_id=event.partition_id,
                        label=label,
                        attempt=event.attempt,
                        rows=event.rows,
                        bytes=event.bytes,
                        seconds=event.seconds,
                        wait_source=event.wait_source,
                        wait_target=event.wait_target,
                        paced=event.paced,
                    )
                )

    def skip_step(self, step: Step) -> bool:
        """Note what a step could not create; return False if that was noted before."""
        item = step.instead
        assert item is not None
        what = (item.kind, item.name, item.table)
        if what in ((other.kind, other.name, other.table) for other in self.skipped):
            return False  # what could not be created cannot be checked either
        self.skipped.append(item)
        return True

    def finish(
        self,
        status: str,
        *,
        partitions: int,
        committed: int,
        degree: int,
        snapshots: Sequence[Snapshot],
        records: Sequence[CommitRecord],
        not_copied: tuple[NotCopied, ...],
    ) -> Finished:
        """Return the event that ends the execution.

        Args:
            status: as in `Finished`.
            partitions: the number of partitions in the plan.
            committed: the number of committed partitions.
            degree: the number of streams.
            snapshots: the snapshots that this execution knows of.
            records: the commit records of all committed partitions.
            not_copied: what the run leaves out, apart from rows.
        """
        moments = {record.read_at for record in records if record.read_at}
        moments.update(snapshot.taken_at for snapshot in snapshots)
        timings = sorted(self._timings, key=lambda timing: -timing.seconds)
        return Finished(
            run_id=self._run_id,
            status=status,
            partitions=partitions,
            committed=committed,
            attempts=self._attempts,
            rows=sum(timing.rows for timing in timings),
            bytes=sum(timing.bytes for timing in timings),
            seconds=round(time.monotonic() - self._started, 3),
            wait_source=round(sum(timing.wait_source for timing in timings), 3),
            wait_target=round(sum(timing.wait_target for timing in timings), 3),
            busy=round(self._busy, 3),
            paced=round(sum(timing.paced for timing in timings), 3),
            lost=round(self._lost, 3),
            degree=degree,
            snapshots=len(moments),
            later=tuple(
                ReadLater(taken_at=moment, partition_ids=names)
                for moment, names in read_later(records).items()
            ),
            inserted=self._inserted,
            updated=self._updated,
            deleted=self._deleted,
            error=self.error.as_json() if self.error else None,
            failures=self.failures,
            timings=tuple(timings[:SLOWEST]),
            not_copied=not_copied,
        )

    def stored_failures(self) -> list[dict[str, Any]]:
        """Return the failures, in the form stored in the target."""
        failures: list[dict[str, Any]] = to_json(self.failures)
        if self.error is not None:
            failures.append({"label": WHOLE_RUN, "error": self.error.as_json()})
        return failures

    def raise_failure(self) -> None:
        """Raise the error that sums up the failures.

        Raises:
            RunFailed, RunFailedTransiently: always, with a summary in one line.
        """
        if self.error is not None:
            raise self.error
        count = len(self.failures)
        message = f"run {self._run_id}: {count} partition{'s' if count != 1 else ''} failed"
        if all(failure.error.get("transient") for failure in self.failures):
            raise RunFailedTransiently(message)
        raise RunFailed(message)
