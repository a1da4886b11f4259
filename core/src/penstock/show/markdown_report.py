"""The reports of a run and of an execution as Markdown."""

from __future__ import annotations

from penstock.events import Finished
from penstock.figures.execution_end import end_of
from penstock.figures.run_report import RunReport
from penstock.show.report_facts import outlier_value, tail, times
from penstock.show.text import megabytes, number, one_line


def execution_markdown(finished: Finished) -> str:
    """Return what an execution did, and its slowest partitions.

    Args:
        finished: the last event of the execution.
    """
    report = end_of(finished)
    assert report.end is not None
    assert report.rate is not None
    rows, moved = report.rate
    lines = [
        f"**{report.status}**: {report.committed:,} of {report.partitions:,} partitions committed; "
        f"{number(report.rows)} rows, {megabytes(report.bytes)} MB in {report.seconds:,.1f} s by "
        f"{report.degree} streams: {number(rows)} rows/s, {megabytes(moved)} MB/s; "
        f"{number(report.attempts)} attempts",
    ]
    for later in report.end.later:
        partitions = ", ".join(map(_cell, later.partition_ids))
        lines += ["", f"Read later than the rest, as of {later.taken_at}: {partitions}"]
    if report.slowest:
        lines += [
            "",
            "| slowest | rows | MB | seconds | rows/s | waiting for source | for target |",
            "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
        ]
    for each in report.slowest:
        waits = (each.spent.source, each.spent.target) if each.spent else ()
        cells = [
            f"{_cell(each.partition_id)} ({_cell(each.label)})",
            number(each.rows),
            megabytes(each.bytes),
            f"{each.seconds:,.2f}",
            number(each.rows / max(each.seconds, 0.001)),
            *(f"{seconds:,.2f} s" for seconds in waits),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


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
