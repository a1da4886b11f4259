"""The time series of all executions of a run, merged into one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from penstock.figures.run_report import Timeline
from penstock.model.journal import DegreeChange, Journal, Series

# Seconds. A shorter gap between two executions is not a pause.
PAUSE = 5.0


def merge_timelines(journals: Sequence[Journal]) -> Timeline | None:
    """Return what the executions moved over time, including executions that overlap."""
    if not any(journal.points for journal in journals):
        return None
    spans = [(_start_time(each), each) for each in journals if each.points or each.degrees]
    clock = _Clock([(start, start + journal.seconds) for start, journal in spans])
    series = Series(max(journal.width for _, journal in spans))
    changes: list[DegreeChange] = []
    for start, journal in spans:
        offset = clock.at_work(start)
        changes += [replace(each, at=round(offset + each.at, 3)) for each in journal.degrees]
        for number, point in enumerate(journal.points):
            since = offset + number * journal.width
            until = min(since + journal.width, max(offset + journal.seconds, since))
            series.spread(since, until, point)
    changes.sort(key=lambda change: change.at)
    return Timeline(series.width, series.points, clock.pauses, tuple(changes))


def execution_seconds(journals: Sequence[Journal]) -> float:
    """Return the seconds in which at least one execution was at work."""
    return working_seconds((0.0, journal.seconds, journal) for journal in journals)


def working_seconds(spans: Iterable[tuple[float, float, Journal]]) -> float:
    """Return the seconds in which at least one execution did something.

    Args:
        spans: seconds from an execution's begin, seconds that the work took, and the execution.
    """
    begins = [(_start_time(journal) + after, seconds) for after, seconds, journal in spans]
    return _Clock([(start, start + seconds) for start, seconds in begins]).total


def _start_time(journal: Journal) -> float:
    return datetime.fromisoformat(journal.started_at).timestamp()


class _Clock:
    """A clock that runs only while an execution is at work.

    Args:
        spans: the begin and the end of each execution.
    """

    def __init__(self, spans: Sequence[tuple[float, float]]) -> None:
        self._spans: list[tuple[float, float]] = []
        for start, end in sorted(spans):
            if self._spans and start <= self._spans[-1][1] + PAUSE:
                before = self._spans[-1]
                self._spans[-1] = (before[0], max(before[1], end))
            else:
                self._spans.append((start, end))

    @property
    def total(self) -> float:
        return sum(end - start for start, end in self._spans)

    @property
    def pauses(self) -> tuple[float, ...]:
        return tuple(self.at_work(start) for start, _ in self._spans[1:])

    def at_work(self, moment: float) -> float:
        """Return the time on this clock."""
        return sum(min(end, moment) - start for start, end in self._spans if start < moment)
