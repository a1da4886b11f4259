"""The plan, progress and results of `tune`, as lines and tables."""

from __future__ import annotations

from penstock.show.console import (
    STYLES,
    Console,
    Text,
    TextColumn,
    make_table,
    print_facts,
    print_heading,
    print_line,
)
from penstock.show.report_facts import KINDS
from penstock.show.text import duration, megabytes, number, one_line, quantity, size
from penstock.tuning.measurements import Figures, Measurement, Tuning
from penstock.tuning.sweep import Sweep, SweepItem, SweepNote, SweepStarted


def line_of(report: SweepItem) -> str:
    """Return one line about an event; empty for events that are shown in another way."""
    if isinstance(report, SweepNote):
        return one_line(report.text)
    if isinstance(report, Sweep):
        return f"{sample_of(report)}, {number(report.copies)} copies of it"
    if isinstance(report, SweepStarted):
        count = f"{report.number} of {report.of}" if report.number else "first, not counted"
        return f"{count}: {report.setting}"
    if isinstance(report, Measurement):
        rate = report.bytes / max(report.seconds, 0.001)
        return f"  {duration(report.seconds)}, {megabytes(rate)} MB/s, {report.cpu:,.1f} s of CPU"
    return ""


def sample_of(sweep: Sweep) -> str:
    """Return a line about the sample of a sweep: its partitions and bytes, of those in the plan."""
    of = len(sweep.plan.partitions)
    return (
        f"sample: {len(sweep.sample):,} of {quantity(of, 'partition')}, "
        f"{size(sweep.sampled_bytes or None)} of {size(sweep.plan.bytes)} in the source"
    )


def print_sweep(console: Console, sweep: Sweep) -> None:
    """Print what would be copied, how often, and the bytes of that."""
    spec = sweep.spec
    console.print(Text(f"{one_line(spec.source_name)} to a scratch table", style="bold"))
    total = sweep.sampled_bytes * sweep.copies
    print_facts(
        console,
        [
            ("like", f"{one_line(spec.target_name)} ({spec.mode})"),
            ("sample", sample_of(sweep).removeprefix("sample: ")),
            ("copies", f"{sweep.copies:,}, the first of which is not counted"),
            ("in all", f"{size(total or None)} of the source"),
        ],
    )
    print_heading(console, "in this order")
    for place, setting in enumerate((sweep.warm_up, *sweep.turns)):
        print_line(console, Text(f"  {setting}" + ("" if place else " (not counted)")))


def print_tuning(console: Console, tuning: Tuning) -> None:
    """Print the recommendation of `tune` with its reason, then the measurements and remarks."""
    console.print(
        Text.assemble(f"{one_line(tuning.source)}: ", (str(tuning.recommendation.setting), "bold"))
    )
    print_line(console, Text(f"  {tuning.recommendation.reason}", style=STYLES["warning"]))
    print_facts(console, facts(tuning))
    head, rows = numbers(tuning)
    columns = [TextColumn(f"  {head[0]}", right=True), TextColumn(head[1])]
    columns += [TextColumn(title, right=True, from_width=_FROM.get(title, 0)) for title in head[2:]]
    print_heading(console, "measured")
    console.print(make_table(console, columns, rows))
    if tuning.remarks:
        print_heading(console, "notes")
    for remark in tuning.remarks:
        print_line(console, Text(f"  {one_line(remark)}"))


_BETWEEN, _ROWS, _BUSIEST = "between", "rows/s", "the target's sessions"
_FROM = {_ROWS: 86, _BETWEEN: 100, _BUSIEST: 130}


def numbers(tuning: Tuning) -> tuple[list[str], list[list[str]]]:
    """Return the head of a table, whose first two columns are the setting, and its rows."""
    cells = [_cells(each) for each in tuning.figures]
    repeated = any(len(each.copies) > 1 for each in tuning.figures)
    head = [title for title in cells[0] if repeated or title != _BETWEEN]
    return head, [[row[title] for title in head] for row in cells]


def _cells(figures: Figures) -> dict[str, str]:
    """Return cells by title; waits are shares of the streams' time."""
    spent = figures.typical.spent
    total = max(spent.total, 0.001)
    return {
        "degree": str(figures.setting.degree),
        "options": figures.setting.variant,
        "seconds": f"{figures.seconds:,.1f}",
        _BETWEEN: f"{figures.least:,.1f} - {figures.most:,.1f}",
        _ROWS: number(figures.rows_a_second),
        "MB/s": megabytes(figures.bytes_a_second),
        "CPU s": f"{figures.cpu:,.1f}",
        "source": f"{spent.source / total:.0%}",
        "target": f"{spent.target / total:.0%}",
        "moving": f"{spent.moving / total:.0%}",
        _BUSIEST: _busiest(figures),
    }


def _busiest(figures: Figures) -> str:
    """Return what the target's sessions did most."""
    shares = sorted(by_kind(figures).items(), key=lambda each: -each[1])
    return ", ".join(f"{share:.0%} {KINDS[kind]}" for kind, share in shares[:2] if share)


def by_kind(figures: Figures) -> dict[str, float]:
    """Return the shares of each kind of session activity on the target; all 0 with few samples."""
    shares = dict.fromkeys(KINDS, 0.0)
    if not figures.shows_sessions:
        return shares
    for wait in figures.typical.waits.get("target", ()):
        shares[wait.kind if wait.kind in shares else "other"] += wait.share
    return shares


def facts(tuning: Tuning) -> list[tuple[str, str]]:
    """Return names and values of what was measured: the scratch table and the sample."""
    return [
        ("into", f"a table like {one_line(tuning.target)} ({tuning.mode})"),
        (
            "sample",
            f"{tuning.partitions:,} of {quantity(tuning.of_partitions, 'partition')}, "
            f"{size(tuning.sampled_bytes or None)} of {size(tuning.of_bytes)} in the source",
        ),
    ]
