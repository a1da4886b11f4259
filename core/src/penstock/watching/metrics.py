"""Metrics of an execution in Prometheus' text format, summed up from its events. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from penstock.errors import TooManyConnections
from penstock.events import (
    BatchFinished,
    BatchStarted,
    Committed,
    Event,
    Failed,
    Finished,
    Opened,
    Planned,
    Prepared,
    Retrying,
    SnapshotChanged,
    Warned,
)

Series = Mapping[str, str]
"""Samples as text by name and labels as text."""

_PREFIX = "penstock_"
_LAST_SUCCESS = "last_success_timestamp_seconds"
_ABOUT = {
    "rows_total": ("counter", "Rows committed by this execution."),
    "bytes_total": ("counter", "Bytes of committed rows, on the wire."),
    "failures_total": ("counter", "Failed attempts at partitions."),
    "partitions": ("gauge", "Partitions of the plan by state."),
    "tables": ("gauge", "Tables by state."),
    "run_seconds": ("gauge", "Duration of this execution, so far or in all."),
    "run_success": ("gauge", "1 if the execution has succeeded, 0 if not; none before its end."),
    _LAST_SUCCESS: ("gauge", "When the table was last copied successfully."),
}
_VALUE = r'"(?:[^"\\]|\\.)*"'
_KEPT = re.compile(
    rf"^({_PREFIX}{_LAST_SUCCESS}\{{table={_VALUE},target={_VALUE}\}}) ([0-9.]+)$", re.MULTILINE
)


@dataclass(slots=True)
class _Table:
    """Sums of one table."""

    name: str
    status: str = "pending"
    partitions: int = 0
    before: int = 0
    """Partitions that earlier executions committed."""
    committed: set[str] = field(default_factory=set)
    running: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)
    rows: int = 0
    bytes: int = 0
    failures: int = 0
    succeeded_at: str = ""

    def by_state(self) -> dict[str, int]:
        committed = min(self.before + len(self.committed), self.partitions)
        running, failed = len(self.running), len(self.failed)
        pending = max(0, self.partitions - committed - running - failed)
        return {"pending": pending, "running": running, "committed": committed, "failed": failed}


class Metrics:
    """The metrics of one execution, of a run or of a batch.

    Args:
        target: names the target; without secrets.
    """

    def __init__(self, target: str) -> None:
        self._target = target
        self._run_id = ""
        self._tables: dict[str, _Table] = {}
        self._is_batch = False
        self.success: bool | None = None
        """Whether the execution has succeeded; None before its end."""

    def add(self, event: Event) -> None:
        """Process an event."""
        if not self._is_batch:
            self._run_id = event.run_id
        match event:
            case BatchStarted():
                self._is_batch = True
                self._tables = {
                    each.run_id: _Table(each.table, "failed" if each.error else "pending")
                    for each in event.tables
                }
            case BatchFinished():
                self.success = event.status == "done"
            case Planned():
                self._plan(event)
            case _ if table := self._tables.get(event.run_id):
                self._count(table, event)

    def _plan(self, event: Planned) -> None:
        table = self._tables.setdefault(event.run_id, _Table(event.table))
        table.status = "running"
        table.partitions, table.before = event.partitions, event.committed
        table.committed, table.running, table.failed = set(), set(), set()

    def _count(self, table: _Table, event: Event) -> None:
        match event:
            case Prepared(already=False):  # the run begins, or starts over
                table.before = 0
                table.committed.clear()
            case SnapshotChanged(state="lost"):
                table.running.clear()
            case Opened():
                table.failed.discard(event.partition_id)
                table.running.add(event.partition_id)
            case Committed():
                table.running.discard(event.partition_id)
                table.committed.add(event.partition_id)
                if not event.already:
                    table.rows += event.rows
                    table.bytes += event.bytes
            case Failed():
                table.running.discard(event.partition_id)
                if event.error.get("error") != TooManyConnections.__name__:  # it is put off
                    table.failed.add(event.partition_id)
                table.failures += 1
            case Retrying():
                table.failed.discard(event.partition_id)
            case Warned(error=Mapping()):
                table.status = "failed"
            case Finished():
                self._finish(table, event)

    def _finish(self, table: _Table, event: Finished) -> None:
        table.running.clear()
        table.status = "done" if event.status in ("done", "partial") else "failed"
        if event.status == "done":
            table.succeeded_at = event.at
        if not self._is_batch:
            self.success = table.status == "done"

    def text(self, seconds: float, kept: Series) -> str:
        """Return the metrics in the text format.

        Args:
            seconds: the duration of the execution so far.
            kept: the last successes of earlier executions, as of `last_successes`.
        """
        lines = []
        for name, (kind, text) in _ABOUT.items():
            samples = {**kept} if name == _LAST_SUCCESS else {}
            samples.update(self._samples(name, seconds))
            if samples:
                lines += [f"# HELP {_PREFIX}{name} {text}", f"# TYPE {_PREFIX}{name} {kind}"]
                lines += [f"{series} {value}" for series, value in samples.items()]
        return "".join(f"{line}\n" for line in lines)

    def _samples(self, name: str, seconds: float) -> Iterator[tuple[str, str]]:
        run = {"run_id": self._run_id, "target": self._target}
        match name:
            case "run_seconds":
                yield _series(name, run), f"{seconds:.3f}"
            case "run_success" if self.success is not None:
                yield _series(name, run), str(int(self.success))
            case "tables":
                for state in ("pending", "running", "done", "failed"):
                    count = sum(table.status == state for table in self._tables.values())
                    yield _series(name, {**run, "state": state}), str(count)
        for table in self._tables.values():
            labels = {"run_id": self._run_id, "table": table.name, "target": self._target}
            match name:
                case "rows_total":
                    yield _series(name, labels), str(table.rows)
                case "bytes_total":
                    yield _series(name, labels), str(table.bytes)
                case "failures_total":
                    yield _series(name, labels), str(table.failures)
                case "partitions":
                    for state, count in table.by_state().items():
                        yield _series(name, {**labels, "state": state}), str(count)
                case "last_success_timestamp_seconds" if table.succeeded_at:
                    # Without the run, so that the next run continues the series.
                    at = datetime.fromisoformat(table.succeeded_at).timestamp()
                    of = {"table": table.name, "target": self._target}
                    yield _series(name, of), f"{at:.3f}"


def last_successes(text: str) -> Series:
    """Return the last successes in an earlier file, which the next one keeps."""
    found: Iterable[re.Match[str]] = _KEPT.finditer(text)
    return {match[1]: match[2] for match in found}


def _series(name: str, labels: Mapping[str, str]) -> str:
    shown = ",".join(f'{label}="{_escape(value)}"' for label, value in labels.items())
    return f"{_PREFIX}{name}{{{shown}}}"


def _escape(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
