"""The words of a report that text, Markdown and HTML have in common."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from penstock.figures.run_report import RunReport, Timeline, TimeSpent
from penstock.model.journal import DegreeChange, FailedAttempt
from penstock.model.plans import id_list
from penstock.show.folding import FEW
from penstock.show.text import PACED, duration, megabytes, number, one_line, quantity, size

HOW_TO_GO_ON = (
    "no process is at work on it, and none has said how it ended: penstock resume continues it"
)
WARNINGS = frozenset({"snapshots", "read later"})
"""The facts that are warnings."""
FEWEST_POINTS = 2
# A share of the streams' capacity.
NEGLIGIBLE = 0.01
# Seconds; less would be shown as zero.
LEAST_SHOWN = 0.05
KINDS = {
    "working": "computing",
    "locks": "locks",
    "log": "its log",
    "storage": "its files",
    "mover": "Penstock",
    "other": "other",
}
"""What each kind of wait is for."""


def kind_of(report: RunReport) -> str:
    """Return what the report is about: ``batch`` or ``run``."""
    return "batch" if report.runs else "run"


def facts(report: RunReport) -> list[tuple[str, str]]:
    """Return the facts at the head of the report."""
    end = report.end
    before = end.before if end else 0
    by = f", {report.strategy}" if report.strategy else ""
    entries = [
        *([("copied", f"{report.what} ({report.mode}{by})")] if report.what else []),
        *(("columns", one_line(line)) for line in report.columns),
        *([("tables", _tables_done(report))] if report.runs else []),
    ]
    if not (end and report.runs):
        since = f", {before:,} of them before this execution" if before else ""
        committed = f"{report.committed:,} of {report.partitions:,} committed{since}"
        entries += [("partitions", committed), *_attempts(report)]
    entries += [
        ("rows", number(report.rows) + (" in this execution" if before else "")),
        *_changes(report),
        ("bytes", size(report.bytes)),
    ]
    if report.seconds is not None:
        streams = f", {quantity(report.degree, 'stream')}" if report.degree else ""
        entries.append(("time", f"{duration(report.seconds)}{streams}"))
    if report.phases:
        phases = (f"{phase} {duration(spent)}" for phase, spent in report.phases.items())
        entries.append(("breakdown", ", ".join(phases)))
    if report.rate:
        rows, moved = report.rate
        over = "" if end else f", over {duration(report.copying or 0.0)} of copying"
        entries.append(("rate", f"{number(rows)} rows/s, {megabytes(moved)} MB/s{over}"))
    if end and end.snapshots > 1:
        text = f"{end.snapshots}: not all rows were read as of the same moment"
        entries.append(("snapshots", text))
    for later in end.later if end else ():
        entries.append(("read later", f"{id_list(later.partition_ids)}, as of {later.taken_at}"))
    if report.phases:
        return entries  # windows and steps of each table are in their own sections
    for name, seconds in (("planning", report.planning), ("comparing", report.comparing)):
        if seconds:
            entries.append((name, duration(seconds)))
    if report.steps:
        *_, slowest = sorted(report.steps, key=lambda name: report.steps[name])
        entries += [
            ("finishing", f"{duration(report.finishing)}, {quantity(len(report.steps), 'step')}"),
            ("longest step", f"{duration(report.steps[slowest])}: {slowest}"),
        ]
    if ending := tail(report):
        entries.append(("at the end", ending))
    return entries


def one_partition_each(report: RunReport) -> bool:
    """Whether this is a batch whose slowest partitions are its slowest tables."""
    return FEW < len(report.runs) == report.partitions


def _tables_done(report: RunReport) -> str:
    statuses = Counter(run.status for run in report.runs)
    other_statuses = [
        f"{count:,} {status}" for status, count in statuses.items() if status != "done"
    ]
    return ", ".join((f"{statuses['done']:,} of {len(report.runs):,} done", *other_statuses))


def _attempts(report: RunReport) -> list[tuple[str, str]]:
    if not report.attempts and report.end is None:
        return []
    failed = f", {report.failed_attempts:,} of them failed" if report.failed_attempts else ""
    lost = f", {duration(report.lost)} lost in them" if failed and report.lost else ""
    return [("attempts", f"{number(report.attempts)}{failed}{lost}")]


def _changes(report: RunReport) -> list[tuple[str, str]]:
    """Return what mode upsert did with the rows."""
    if report.end is None or report.end.changes is None:
        return []
    inserted, updated, deleted = report.end.changes
    text = f"{inserted:,} inserted, {updated:,} updated, "
    text += f"{report.rows - inserted - updated:,} unchanged"
    return [("changes", text + (f", {deleted:,} deleted" if deleted else ""))]


def tail(report: RunReport) -> str:
    """Return the time lost in the tail, as text; empty if it is negligible."""
    if report.idle <= max(NEGLIGIBLE * report.degree * (report.copying or 0.0), LEAST_SHOWN):
        return ""
    return (
        f"{duration(report.tail)} with fewer than {quantity(report.degree, 'stream')} at work, "
        f"{duration(report.idle)} of streams idle"
    )


def streams_time(run: RunReport) -> str:
    """Return the time of all streams together; a question mark if it is unknown."""
    return "?" if run.streams_seconds is None else duration(run.streams_seconds)


def uses(spent: TimeSpent) -> list[tuple[str, float]]:
    """Return what a time was spent on, in seconds."""
    paced = [(PACED, spent.paced)] if spent.paced else []
    waits = [("waiting for source", spent.source), ("waiting for target", spent.target)]
    return [*waits, ("moving", spent.moving), *paced]


def times(report: RunReport) -> list[tuple[str, float, float]]:
    """Return how the streams spent their time: the use, its seconds and its share."""
    if report.spent is None:
        return []
    parts = uses(report.spent)
    if report.lost:
        parts.append(("failed attempts", report.lost))
    total = max(sum(seconds for _, seconds in parts), 0.001)
    return [(name, seconds, seconds / total) for name, seconds in parts]


def points_to_draw(report: RunReport) -> Timeline | None:
    """Return the timeline to draw; None if the run was too short.

    In a short run most points are not full, and would show wrong rates.
    """
    timeline = report.timeline
    if timeline is None or not timeline.points:
        return None
    total = len(timeline.points) * timeline.width if report.copying is None else report.copying
    return timeline if total >= FEWEST_POINTS * timeline.width else None


def outlier_value(measure: str, value: float) -> str:
    """Return a value of an outlier, with its unit.

    Args:
        measure: ``seconds`` or ``rows``.
        value: the value of the partition, or the median of all.
    """
    return f"{value:,.1f} s" if measure == "seconds" else f"{value:,.0f} rows"


def happenings(degrees: Sequence[DegreeChange], failures: Sequence[FailedAttempt]) -> list[str]:
    """Return the degree changes and failed attempts of an execution, in order."""
    entries = [(change.at, degree_change(change)) for change in degrees]
    for failed in failures:
        cause = " ".join(part for part in (failed.side, failed.error, failed.code) if part)
        entries.append(
            (failed.at, f"attempt {failed.attempt} of {failed.partition_id} failed: {cause}")
        )
    return [f"after {duration(at)}: {text}" for at, text in sorted(entries)]


def degree_change(change: DegreeChange) -> str:
    """Return the new number of streams, and the reason for the change."""
    return f"{quantity(change.degree, 'stream')}: {change.message}"
