"""The report of a run, a batch or an execution, as text with tables."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.events import PartitionFailure
from penstock.figures.run_report import ExecutionEnd, PartitionFigures, RunReport, Timeline
from penstock.model.journal import KILLED
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
from penstock.show.folding import FEW, folded_lines
from penstock.show.plan_table import print_not_copied
from penstock.show.report_facts import (
    HOW_TO_GO_ON,
    KINDS,
    WARNINGS,
    facts,
    happenings,
    kind_of,
    one_partition_each,
    outlier_value,
    points_to_draw,
    streams_time,
    times,
)
from penstock.show.text import (
    duration,
    error_lines,
    megabytes,
    moment,
    number,
    one_line,
    quantity,
    size,
)

if TYPE_CHECKING:
    from rich.console import RenderableType

STATUS_STYLES = {
    "done": "bold green",
    "partial": "bold yellow",
    "failed": "bold red",
    "interrupted": "bold red",
}
_WIDTH = 100
# Partitions, and tables of a batch: at the end of an execution, and in the report of the whole.
_SLOWEST_AT_END, _SLOWEST = 5, 10
_MOST_FAILURES = 5
_SPARKS = "▁▂▃▄▅▆▇█"
_MOST_SPARKS = 60


def print_run_report(console: Console, report: RunReport, go_on: str = "") -> None:
    """Print what was done, where the time went, what was slow or failed, and what may help.

    Args:
        console: the console for results.
        report: the report.
        go_on: the command that continues the run; empty if none can.
    """
    style = STATUS_STYLES.get(report.status, "bold")
    heading = (f"{kind_of(report)} ", (report.run_id, "bold"), " ", (report.status, style))
    console.print(Text.assemble(*heading))
    if report.advice:
        print_line(console, Text(f"  {one_line(report.advice)}", style=STYLES["warning"]))
    if report.status == KILLED:
        print_line(console, Text(f"  {HOW_TO_GO_ON}", style=STYLES["warning"]))
    print_facts(console, [(name, _fact(name, value)) for name, value in facts(report)])
    if report.end and report.end.error is not None:
        print_heading(console, "what ended the run")
        for line in error_lines(report.end.error):
            print_line(console, Text(f"  {line}"))
    _print_tables(console, report)
    _print_time(console, report)
    _print_waits(console, report)
    if (timeline := points_to_draw(report)) is not None:
        print_heading(console, "MB/s over time")
        print_line(console, Text(f"  {_sparkline(timeline)}"))
    if len(report.slowest) > 1 and not one_partition_each(report):
        _print_slowest(console, report.slowest[: _SLOWEST_AT_END if report.end else _SLOWEST])
    _print_outliers(console, report)
    _print_executions(console, report)
    if report.unknown:
        print_heading(console, "not known")
    for line in report.unknown:
        print_line(console, Text(f"  {one_line(line)}"))
    if report.end:
        _print_end(console, report.runs, report.end)
    if go_on and (report.committed < report.partitions or report.status == "failed"):
        print_heading(console, "continue with")
        console.print(Text(f"  {go_on}"), soft_wrap=True)


def run_report_text(report: RunReport, go_on: str = "") -> str:
    """Return the report as text for logs.

    Args:
        report: the report.
        go_on: how to continue the run if it is not done; empty if it cannot be continued.
    """
    file = io.StringIO()
    print_run_report(make_console(file, _WIDTH), report, go_on)
    return file.getvalue().rstrip()


def _fact(name: str, value: str) -> str | Text:
    text = one_line(value)
    return Text(text, style=STYLES["warning"]) if name in WARNINGS else text


def _print_tables(console: Console, report: RunReport) -> None:
    if len(report.runs) > FEW:
        _print_many_tables(console, report)
    elif report.runs and report.end is None:
        _print_few_tables(console, report.runs)


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


def _print_slowest(console: Console, slowest: Sequence[PartitionFigures]) -> None:
    """Print the slowest partitions, with their rates and shares of waiting."""
    print_heading(
        console, "slowest partitions (source, target: share of time spent waiting for it)"
    )
    rows: list[list[RenderableType]] = []
    for each in slowest:
        seconds, spent = max(each.seconds, 0.001), each.spent
        waits = (spent.source, spent.target) if spent else None
        shares = [f"{part / seconds:.0%}" for part in waits] if waits else ["?", "?"]
        rows.append(
            [
                f"  {one_line(each.partition_id)}",
                ShortenedText(one_line(each.label)),
                number(each.rows),
                f"{seconds:,.1f}",
                megabytes(each.bytes / seconds),
                *shares,
            ]
        )
    columns = [
        TextColumn("  partition"),
        TextColumn("what it selects", wide=True, from_width=76),
        TextColumn("rows", right=True, from_width=36),
        TextColumn("seconds", right=True),
        TextColumn("MB/s", right=True, from_width=48),
        TextColumn("source", right=True, from_width=60),
        TextColumn("target", right=True, from_width=60),
    ]
    _print_table(console, columns, rows)


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


def _print_many_tables(console: Console, report: RunReport) -> None:
    """Print the slow tables; without the end of an execution, the undone ones in a line each."""
    most = _SLOWEST_AT_END if report.end else _SLOWEST
    timed = [(run.streams_seconds, run) for run in report.runs if run.streams_seconds]
    rows: list[list[RenderableType]] = [
        [f"  {one_line(run.what)}", number(run.rows), size(run.bytes), duration(seconds)]
        for seconds, run in sorted(timed, key=lambda each: -each[0])[:most]
    ]
    if rows:
        print_heading(console, "slowest tables")
        columns = [
            TextColumn("  table"),
            TextColumn("rows", right=True),
            TextColumn("bytes", right=True, from_width=60),
            TextColumn("streams' time", right=True),
        ]
        _print_table(console, columns, rows)
    if report.end:
        return
    undone = [run for run in report.runs if run.status != "done"]
    if undone:
        print_heading(console, "tables that are not done")
    for run in undone[:FEW]:
        line = f"  {one_line(run.what)} {run.status}, run {run.run_id}"
        print_line(console, Text(line, style=STYLES["error"]))
    if len(undone) > FEW:
        print_line(console, Text(f"  and {len(undone) - FEW:,} more"))
    print_line(console, Text("  --html FILE and --json show all tables", style="dim"))


def _print_few_tables(console: Console, runs: Sequence[RunReport]) -> None:
    print_heading(console, "tables")
    rows: list[list[RenderableType]] = [
        [
            f"  {one_line(run.run_id)}",
            ShortenedText(one_line(run.what)),
            run.status,
            number(run.rows),
            size(run.bytes),
            streams_time(run),
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


def _print_end(console: Console, tables: Sequence[RunReport], end: ExecutionEnd) -> None:
    """Print what failed or is missing at the end of an execution.

    Similar lines about many tables are folded into one.
    """
    ends = [(run, run.end) for run in tables if run.end]
    warnings = [(run.what, warning) for run, each in ends for warning in each.warnings]
    if warnings:
        print_heading(console, "warnings")
    for line in folded_lines(warnings):
        print_line(console, Text(f"  {line}", style=STYLES["warning"]))
    if end.failures:
        print_heading(console, "failures")
    for failure in end.failures:
        print_failure(console, failure)
    print_not_copied(console, end.not_copied)
    failed = [(run, each) for run, each in ends if run.status != "done"]
    if failed:
        print_heading(console, "tables that are not done")
    if len(failed) > FEW:
        lines = [(run.what, failure_line(run)) for run, _ in failed]
        for line in folded_lines(lines):
            print_line(console, Text(f"  {line}", style=STYLES["error"]))
        return
    for run, each in failed:
        _print_failed_table(console, run, each)


def failure_line(run: RunReport) -> str:
    """Return the status and the first error of a table in one line."""
    assert run.end is not None
    error = run.end.error or (run.end.failures[0].error if run.end.failures else None)
    return f"{run.status}: {error_lines(error)[0]}" if error else run.status


def _print_failed_table(console: Console, run: RunReport, end: ExecutionEnd) -> None:
    what = Text.assemble(
        "  ", (one_line(run.what), STYLES["error"]), f" {run.status}, run {run.run_id}"
    )
    print_line(console, what)
    for line in error_lines(end.error) if end.error else ():
        print_line(console, Text(f"    {line}"))
    for failure in end.failures[:_MOST_FAILURES]:
        print_failure(console, failure, "    ")
    if (more := len(end.failures) - _MOST_FAILURES) > 0:
        line = f"    and {quantity(more, 'partition')} more: penstock status {run.run_id} shows all"
        print_line(console, Text(line))


def print_failure(console: Console, failure: PartitionFailure, indent: str = "  ") -> None:
    """Print why a partition failed, without shortening the message.

    Args:
        console: the console for results.
        failure: the failure; its label is empty if the partition's rows are unknown.
        indent: the spaces before the first line.
    """
    # Label, message and context may be long, so they wrap in full.
    what = Text.assemble(
        indent,
        (one_line(failure.partition_id), STYLES["error"]),
        f" ({one_line(failure.label)})" if failure.label else "",
        f", {quantity(failure.attempts, 'attempt')}",
    )
    print_line(console, what)
    for line in error_lines(failure.error):
        print_line(console, Text(f"{indent}  {line}"))
