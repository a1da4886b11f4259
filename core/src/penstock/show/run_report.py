"""The report of a run, as tables and as Markdown."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.figures.run_report import RunReport, Timeline
from penstock.model.journal import KILLED, DegreeChange, FailedAttempt
from penstock.show.console import (
    STYLES,
    Console,
    ShortenedText,
    Text,
    TextColumn,
    make_console,
    make_table,
    print_facts,
    print_heading,
    print_line,
)
from penstock.show.folding import FEW
from penstock.show.report_table import (
    STATUS_STYLES,
    phases_text,
    print_slowest,
    print_slowest_tables,
)
from penstock.show.text import PACED, duration, megabytes, moment, number, one_line, quantity, size

if TYPE_CHECKING:
    from rich.console import RenderableType

HOW_TO_GO_ON = (
    "no process is at work on it, and none has said how it ended: penstock resume continues it"
)
_WIDTH = 100
_SLOWEST_TABLES = 10
_SPARKS = "▁▂▃▄▅▆▇█"
_MOST_SPARKS = 60
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


def print_run_report(console: Console, report: RunReport) -> None:
    """Print where the time of a run went, what was slow, and what may help."""
    console.print(
        Text.assemble(
            "batch " if report.runs else "run ",
            (report.run_id, "bold"),
            " ",
            (report.status, STATUS_STYLES.get(report.status, "bold")),
        )
    )
    if report.advice:
        print_line(console, Text(f"  {one_line(report.advice)}", style=STYLES["warning"]))
    if report.status == KILLED:
        print_line(console, Text(f"  {HOW_TO_GO_ON}", style=STYLES["warning"]))
    print_facts(console, [(name, one_line(value)) for name, value in facts(report)])
    if len(report.runs) > FEW:
        _print_many_tables(console, report.runs)
    elif report.runs:
        _print_tables(console, report.runs)
    _print_time(console, report)
    _print_waits(console, report)
    if (timeline := points_to_draw(report)) is not None:
        print_heading(console, "MB/s over time")
        print_line(console, Text(f"  {_sparkline(timeline)}"))
    if len(report.slowest) > 1 and not one_partition_each(report):
        print_slowest(
            console,
            (
                (
                    each.partition_id,
                    each.label,
                    each.rows,
                    each.bytes,
                    each.seconds,
                    (each.spent.source, each.spent.target) if each.spent else None,
                )
                for each in report.slowest
            ),
        )
    _print_outliers(console, report)
    _print_executions(console, report)
    if report.unknown:
        print_heading(console, "not known")
    for line in report.unknown:
        print_line(console, Text(f"  {one_line(line)}"))


def facts(report: RunReport) -> list[tuple[str, str]]:
    """Return the facts at the head of the report."""
    cut = f", {report.strategy}" if report.strategy else ""
    entries = [
        ("copied", f"{report.what} ({report.mode}{cut})"),
        *(("columns", one_line(line)) for line in report.columns),
        *([("tables", _tables_done(report))] if report.runs else []),
        ("partitions", f"{report.committed:,} of {report.partitions:,} committed"),
        *_attempts(report),
        ("rows", number(report.rows)),
        ("bytes", size(report.bytes)),
    ]
    if report.seconds is not None:
        streams = f", {quantity(report.degree, 'stream')}" if report.degree else ""
        entries.append(("time", f"{duration(report.seconds)}{streams}"))
    if report.phases:
        entries.append(("of it", phases_text(report.phases)))
    if report.copying and report.timeline:
        # Not the committed rows: an execution that was killed has reported only part of them.
        points = report.timeline.points
        rows = sum(point.rows for point in points) / report.copying
        bytes_a_second = sum(point.bytes for point in points) / report.copying
        average = f"{number(rows)} rows/s, {megabytes(bytes_a_second)} MB/s"
        entries.append(("rate", f"{average}, over {duration(report.copying)} of copying"))
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
    attempts = sum(each.attempts for each in report.executions)
    if not attempts:
        return []
    failed = f", {report.failed_attempts:,} of them failed, {duration(report.lost)} lost in them"
    return [("attempts", number(attempts) + (failed if report.failed_attempts else ""))]


def tail(report: RunReport) -> str:
    """Return the time lost in the tail, as text; empty if it is negligible."""
    if report.idle <= max(NEGLIGIBLE * report.degree * (report.copying or 0.0), LEAST_SHOWN):
        return ""
    return (
        f"{duration(report.tail)} with fewer than {quantity(report.degree, 'stream')} at work, "
        f"{duration(report.idle)} of streams idle"
    )


def times(report: RunReport) -> list[tuple[str, float, float]]:
    """Return how the streams spent their time: the use, its seconds and its share."""
    spent = report.spent
    if spent is None:
        return []
    parts = [
        ("waiting for source", spent.source),
        ("waiting for target", spent.target),
        ("moving", spent.moving),
    ]
    if spent.paced:
        parts.append((PACED, spent.paced))
    if report.lost:
        parts.append(("failed attempts", report.lost))
    total = max(sum(seconds for _, seconds in parts), 0.001)
    return [(name, seconds, seconds / total) for name, seconds in parts]


def _print_table(
    console: Console, columns: Sequence[TextColumn], rows: Sequence[Sequence[RenderableType]]
) -> None:
    console.print(make_table(console, list(columns), [list(row) for row in rows]))


def _print_time(console: Console, report: RunReport) -> None:
    rows = [[f"  {name}", f"{spent:,.1f}", f"{share:.1%}"] for name, spent, share in times(report)]
    if rows:
        print_heading(console, "where the streams' time went")
        columns = [
            TextColumn(""),
            TextColumn("seconds", right=True),
            TextColumn("share", right=True),
        ]
        _print_table(console, columns, rows)


def _print_waits(console: Console, report: RunReport) -> None:
    rows = [
        [f"  {side}", one_line(each.wait), KINDS.get(each.kind, each.kind), f"{each.share:.0%}"]
        for side, waits in report.waits.items()
        for each in waits
    ]
    if rows:
        print_heading(console, "what the servers' sessions waited for")
        columns = [
            TextColumn("  server"),
            TextColumn("wait"),
            TextColumn("for"),
            TextColumn("share", right=True),
        ]
        _print_table(console, columns, rows)


def points_to_draw(report: RunReport) -> Timeline | None:
    """Return the timeline to draw; None if the run was too short.

    In a short run most points are not full, and would show wrong rates.
    """
    timeline = report.timeline
    if timeline is None or not timeline.points:
        return None
    total = len(timeline.points) * timeline.width if report.copying is None else report.copying
    return timeline if total >= FEWEST_POINTS * timeline.width else None


def _sparkline(timeline: Timeline) -> str:
    """Return the rate as a row of bars, as many as fit, and the highest rate."""
    step = -(-len(timeline.points) // _MOST_SPARKS)
    values = []
    for start in range(0, len(timeline.points), step):
        some = timeline.points[start : start + step]
        values.append(sum(point.bytes for point in some) / (len(some) * timeline.width))
    most = max(values)
    bars = [_SPARKS[min(7, int(8 * value / most))] if most else _SPARKS[0] for value in values]
    return f"{''.join(bars)} {megabytes(most)} at most, {duration(step * timeline.width)} a bar"


def _print_outliers(console: Console, report: RunReport) -> None:
    if not report.outliers:
        return
    print_heading(console, "far from the median")
    rows: list[list[RenderableType]] = [
        [
            f"  {one_line(each.partition_id)}",
            ShortenedText(one_line(each.label)),
            outlier_value(each.measure, each.value),
            outlier_value(each.measure, each.median),
            f"{each.times:,.1f}",
        ]
        for each in report.outliers
    ]
    columns = [
        TextColumn("  partition"),
        TextColumn("what it selects", wide=True, from_width=76),
        TextColumn("it has", right=True),
        TextColumn("median", right=True),
        TextColumn("times", right=True),
    ]
    _print_table(console, columns, rows)


def outlier_value(measure: str, value: float) -> str:
    """Return a value of an outlier, with its unit.

    Args:
        measure: ``seconds`` or ``rows``.
        value: the value of the partition, or the median of all.
    """
    return f"{value:,.1f} s" if measure == "seconds" else f"{value:,.0f} rows"


def _print_executions(console: Console, report: RunReport) -> None:
    shown = [each for each in report.executions if each.failures or each.degrees]
    if len(report.executions) > 1:
        print_heading(console, "executions")
        columns = [
            TextColumn("  begun"),
            TextColumn("status"),
            TextColumn("time", right=True),
            TextColumn("streams", right=True),
            TextColumn("attempts", right=True),
            TextColumn("failed", right=True),
        ]
        rows = [
            [
                f"  {moment(each.started_at)}",
                each.status,
                duration(each.seconds),
                number(each.degree),
                number(each.attempts),
                number(each.failed),
            ]
            for each in report.executions
        ]
        _print_table(console, columns, rows)
    if shown:
        print_heading(console, "what happened")
    for each in shown:
        for line in happenings(each.degrees, each.failures):
            print_line(console, Text(f"  {one_line(line)}"))


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


def _print_many_tables(console: Console, runs: Sequence[RunReport]) -> None:
    """Print the slow tables and the tables that are not done."""
    timed = [run for run in runs if run.spent]
    print_slowest_tables(
        console,
        (
            (run.what, run.rows, run.bytes, run.spent.total if run.spent else 0.0)
            for run in timed[:_SLOWEST_TABLES]
        ),
    )
    undone = [run for run in runs if run.status != "done"]
    if undone:
        print_heading(console, "tables that are not done")
    for run in undone[:FEW]:
        line = f"  {one_line(run.what)} {run.status}, run {run.run_id}"
        print_line(console, Text(line, style=STYLES["error"]))
    if len(undone) > FEW:
        print_line(console, Text(f"  and {len(undone) - FEW:,} more"))
    print_line(console, Text("  --html FILE and --json show all tables", style="dim"))


def _print_tables(console: Console, runs: Sequence[RunReport]) -> None:
    print_heading(console, "tables")
    rows: list[list[RenderableType]] = [
        [
            f"  {one_line(run.run_id)}",
            ShortenedText(one_line(run.what)),
            run.status,
            number(run.rows),
            size(run.bytes),
            duration(run.spent.total) if run.spent else "?",
        ]
        for run in runs
    ]
    columns = [
        TextColumn("  run"),
        TextColumn("what", wide=True),
        TextColumn("status"),
        TextColumn("rows", right=True),
        TextColumn("bytes", right=True, from_width=60),
        TextColumn("streams' time", right=True),
    ]
    _print_table(console, columns, rows)


def run_report_text(report: RunReport) -> str:
    """Return the report as text for logs."""
    file = io.StringIO()
    console = make_console(file, _WIDTH)
    print_run_report(console, report)
    return file.getvalue().rstrip()


def run_report_markdown(report: RunReport) -> str:
    """Return the report's summary as Markdown: the advice, and where the time went."""
    lines = [f"**{_cell(report.advice)}**", ""] if report.advice else []
    parts = times(report)
    if parts:
        lines += ["| where the time went | seconds | share |", "| --- | ---: | ---: |"]
        lines += [f"| {name} | {spent:,.1f} | {share:.1%} |" for name, spent, share in parts]
    for side, waits in report.waits.items():
        listed = ", ".join(f"{_cell(each.wait)} {each.share:.0%}" for each in waits[:5])
        lines += ["", f"Sessions of the {side}: {listed}"]
    for each in report.outliers:
        value, middle = (outlier_value(each.measure, v) for v in (each.value, each.median))
        lines += [
            "",
            f"{_cell(each.partition_id)} ({_cell(each.label)}): {value}, {each.times:,.1f} times "
            f"the median of {middle}",
        ]
    if ending := tail(report):
        lines += ["", f"At the end: {ending}"]
    return "\n".join(lines)


def _cell(text: str) -> str:
    """Escape text for a cell of a Markdown table."""
    escaped = "".join(f"\\{letter}" if letter in _MARKUP else letter for letter in one_line(text))
    return " ".join(escaped.split())


_MARKUP = frozenset("\\`*_{}[]<>()#|~")
