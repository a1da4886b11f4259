"""What an execution of a run did, gathered from its events."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from penstock.events import (
    Committed,
    Event,
    Failed,
    Finished,
    Opened,
    PartitionFailure,
    PartitionTiming,
    ReadLater,
)
from penstock.model.tables import NotCopied

SLOWEST = 10


class Report:
    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._begun = time.monotonic()
        self._opened: dict[tuple[str, int], tuple[float, str]] = {}
        self._timings: list[PartitionTiming] = []
        self._attempts = 0
        self._inserted: int | None = None
        self._updated: int | None = None
        self._busy = 0.0

    def add(self, event: Event) -> None:
        if isinstance(event, Opened):
            self._attempts += 1
            self._opened[event.partition_id, event.attempt] = (time.monotonic(), event.label)
        elif isinstance(event, Committed | Failed):
            key = (event.partition_id, event.attempt)
            since, label = self._opened.pop(key, (time.monotonic(), ""))
            self._busy += time.monotonic() - since
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
                    )
                )

    def finish(
        self,
        status: str,
        *,
        partitions: int,
        committed: int,
        degree: int,
        snapshots: int,
        later: tuple[ReadLater, ...],
        failures: tuple[PartitionFailure, ...],
        error: Mapping[str, Any] | None,
        not_copied: tuple[NotCopied, ...],
    ) -> Finished:
        timings = sorted(self._timings, key=lambda timing: -timing.seconds)
        return Finished(
            run_id=self._run_id,
            status=status,
            partitions=partitions,
            committed=committed,
            attempts=self._attempts,
            rows=sum(timing.rows for timing in timings),
            bytes=sum(timing.bytes for timing in timings),
            seconds=round(time.monotonic() - self._begun, 3),
            wait_source=round(sum(timing.wait_source for timing in timings), 3),
            wait_target=round(sum(timing.wait_target for timing in timings), 3),
            busy=round(self._busy, 3),
            degree=degree,
            snapshots=snapshots,
            later=later,
            inserted=self._inserted,
            updated=self._updated,
            error=error,
            failures=failures,
            timings=tuple(timings[:SLOWEST]),
            not_copied=not_copied,
        )
