"""Results for people: a plan, a report, a run's status, a verification."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from penstock.events import BatchFinished, BatchTable, Finished
from penstock.model.plans import named
from penstock.model.records import read_later
from penstock.show.lines import (
    counted,
    duration,
    error_lines,
    megabytes,
    not_copied_lines,
    number,
    one_line,
    shorten,
    size,
)

if TYPE_CHECKING:
    from penstock.model.plans import PartitionPlan
    from penstock.model.tables import NotCopied
    from penstock.run.api import RunStatus
    from penstock.verification.result import Check, Verification

STYLES: Mapping[str, str] = {
    "plain": "",
    "good": "green",
    "warning": "yellow",
    "error": "bold red",
}
_STATUS_STYLES = {"done": "bold green", "partial": "bold yellow"}

_MOST_ROWS = 40
_FIRST_ROWS = 20
_LAST_ROWS = 10
_SLOWEST = 5
_MOST_PENDING = 12
_MOST_FAILURES = 5


class _PipeConsole(Console):
    """A console whose reader may go away: its own way to say so would be to exit."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


def make_console(file: TextIO) -> Console:
    """A console for texts that hold data: no markup, no emoji, no highlighting."""
    return _PipeConsole(file=file, markup=False, emoji=False, highlight=False)


class Shortened:
    """A text that leaves out its middle where there is too little room."""

    def __init__(self, text: str, style: str = "") -> None:
        self._text = text
        self._style = style

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        text = shorten(self._text, options.max_width)
        yield Text(text, style=self._style, no_wrap=True, overflow="crop")

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(1, max(1, cell_len(self._text)))


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table, left out where the console is narrower than `from_width`."""

    title: str
    right: bool = False
    wide: bool = False
    """Takes the room that the others leave."""
    width: int | None = None
    from_width: int = 0


def make_table(
    console: Console,
    columns: Sequence[Column],
    rows: Sequence[Sequence[RenderableType]],
    *,
    expand: bool = False,
) -> Table:
    """A table without lines. Columns that would not fit are left out: half a number misleads."""
    shown = [position for position, item in enumerate(columns) if console.width >= item.from_width]
    # Without a column that takes the room, the others would spread over it.
    expand = expand and any(columns[position].wide for position in shown)
    table = Table(box=None, pad_edge=False, padding=(0, 1), header_style="dim", expand=expand)
    for position in shown:
        item = columns[position]
        table.add_column(
            Shortened(item.title, "dim") if item.wide else item.title,
            justify="right" if item.right else "left",
            ratio=1 if item.wide and expand else None,
            min_width=item.width,
            no_wrap=not item.wide,
            overflow="ellipsis",
        )
    for row in rows:
        table.add_row(*(row[position] for position in shown))
    return table


def print_line(console: Console, text: Text) -> None:
    """Print one line. A terminal wraps it under its own beginning; a file gets it as it is."""
    if not console.is_terminal:
        console.print(text, soft_wrap=True)
        return
    indent = len(text.plain) - len(text.plain.lstrip())
    console.print(Padding(text[indent:], (0, 0, 0, indent), expand=False))


def _facts(console: Console, facts: Sequence[tuple[str, str | Text]]) -> None:
    width = max(len(name) for name, _ in facts)
    for name, value in facts:
        if console.is_terminal and console.width >= 40:
            table = Table.grid(padding=(0, 2))
            table.add_column(style="dim", min_width=width + 2, no_wrap=True)
            table.add_column(overflow="fold")
            table.add_row(f"  {name}", value)
            console.print(table)
        else:
            print_line(console, Text.assemble("  ", (name.ljust(width), "dim"), "  ", value))


def _heading(console: Console, text: str) -> None:
    console.print()
    console.print(Text(text, style="bold"))


def print_plan(console: Console, plan: PartitionPlan) -> None:
    """Strategy and reasons, warnings, estimates, and the partitions."""
    console.print(
        Text.assemble(
            (counted(len(plan.partitions), "partition"), "bold"),
            " by ",
            (plan.strategy, "bold"),
        )
    )
    for reason in plan.reasons:
        print_line(console, Text(f"  {one_line(reason)}"))
    for warning in plan.warnings:
        print_line(console, Text(f"warning: {one_line(warning)}", style=STYLES["warning"]))
    print_not_copied(console, plan.load.not_copied)
    _facts(
        console,
        [
            ("estimated rows", "unknown" if plan.rows is None else number(plan.rows)),
            ("estimated bytes", "unknown" if plan.bytes is None else size(plan.bytes)),
            ("columns", str(len(plan.columns))),
            ("fingerprint", plan.fingerprint),
        ],
    )
    for title, steps in (
        ("before the first partition", plan.load.before),
        ("after the last partition", plan.load.after),
    ):
        if steps:
            _heading(console, title)
            for step in steps:
                print_line(console, Text(f"  {one_line(step.name)}"))
    console.print()
    rows: list[list[RenderableType]] = [
        [
            one_line(partition.id),
            Shortened(one_line(str(partition.extent))),
            number(partition.rows),
            size(partition.bytes),
        ]
        for partition in plan.partitions
    ]
    columns = [
        Column("partition"),
        Column("what it selects", wide=True, from_width=40),
        Column("rows", right=True),
        Column("bytes", right=True, from_width=60),
    ]
    out = len(rows) - _FIRST_ROWS - _LAST_ROWS
    if len(rows) > _MOST_ROWS:
        gap: list[RenderableType] = ["…", Shortened(f"{out:,} left out"), "", ""]
        rows = [*rows[:_FIRST_ROWS], gap, *rows[-_LAST_ROWS:]]
    console.print(make_table(console, columns, rows))
    if len(plan.partitions) > _MOST_ROWS:
        console.print()
        console.print(
            Text(
                f"{_FIRST_ROWS + _LAST_ROWS} of {len(plan.partitions):,} partitions shown, "
                f"{out:,} left out: --json gives all of them"
            )
        )


def print_report(console: Console, finished: Finished, go_on: str, before: int = 0) -> None:
    """The end of an execution: what was done, where the time went, and what failed.

    Parameters:
        go_on: the command that goes on with the run; empty where none can.
        before: how many partitions earlier executions had committed.
    """
    _print_ending(console, "run", finished.run_id, finished.status)
    seconds = max(finished.seconds, 0.001)
    since = f", {before:,} of them before this execution" if before else ""
    facts: list[tuple[str, str | Text]] = [
        ("partitions", f"{finished.committed:,} of {finished.partitions:,} committed{since}"),
        ("attempts", number(finished.attempts)),
        ("rows", number(finished.rows)),
        *_changes(finished),
        ("bytes", size(finished.bytes)),
        ("time", f"{duration(finished.seconds)}, {counted(finished.degree, 'stream')}"),
        (
            "rate",
            f"{number(finished.rows / seconds)} rows/s, {megabytes(finished.bytes / seconds)} MB/s",
        ),
    ]
    if finished.snapshots > 1:
        warning = f"{finished.snapshots}: not all rows were read as of one moment"
        facts.append(("snapshots", Text(warning, style=STYLES["warning"])))
    for later in finished.later:
        told = f"{one_line(named(later.partition_ids))}, as of {later.taken_at}"
        facts.append(("read later", Text(told, style=STYLES["warning"])))
    _facts(console, facts)
    if finished.error is not None:
        _heading(console, "what ended the run")
        for line in error_lines(finished.error):
            print_line(console, Text(f"  {line}"))
    if finished.busy > 0:
        _print_time(console, finished)
    if len(finished.timings) > 1:
        _print_slowest(console, finished)
    if finished.failures:
        _heading(console, "failures")
        for failure in finished.failures:
            _print_failure(
                console, failure.partition_id, failure.label, failure.attempts, failure.error
            )
    print_not_copied(console, finished.not_copied)
    if go_on and (finished.committed < finished.partitions or finished.status == "failed"):
        _heading(console, "go on with")
        console.print(Text(f"  {go_on}"), soft_wrap=True)


def print_not_copied(console: Console, items: Sequence[NotCopied]) -> None:
    """What a copy leaves out besides rows, and what makes it in the target."""
    for line in not_copied_lines(items):
        if line.startswith(" "):
            # Whole, for statements are there to be copied and pasted.
            console.print(Text(line), soft_wrap=True)
        else:
            console.print()
            console.print(Text(line, style=STYLES["warning"]))


def _print_ending(console: Console, kind: str, run_id: str, status: str) -> None:
    style = _STATUS_STYLES.get(status, "bold red")
    console.print(Text.assemble(f"{kind} ", (run_id, "bold"), " ", (status, style)))


def _changes(finished: Finished) -> list[tuple[str, str | Text]]:
    """What mode upsert did with the rows."""
    if finished.inserted is None or finished.updated is None:
        return []
    unchanged = finished.rows - finished.inserted - finished.updated
    return [
        (
            "changes",
            f"{finished.inserted:,} inserted, {finished.updated:,} updated, "
            f"{unchanged:,} unchanged",
        )
    ]


def print_batch(console: Console, finished: BatchFinished) -> None:
    """The end of a batch: its tables, and what failed."""
    _print_ending(console, "batch", finished.run_id, finished.status)
    done = sum(table.status == "done" for table in finished.tables)
    seconds = max(finished.seconds, 0.001)
    _facts(
        console,
        [
            ("tables", f"{done:,} of {len(finished.tables):,} done"),
            ("rows", number(finished.rows)),
            ("bytes", size(finished.bytes)),
            ("time", duration(finished.seconds)),
            (
                "rate",
                f"{number(finished.rows / seconds)} rows/s, "
                f"{megabytes(finished.bytes / seconds)} MB/s",
            ),
        ],
    )
    warned = [table for table in finished.tables if table.warnings]
    if warned:
        _heading(console, "warnings")
    for table in warned:
        for warning in table.warnings:
            line = f"  {one_line(table.table)}: {one_line(warning)}"
            print_line(console, Text(line, style=STYLES["warning"]))
    of_tables = (item for table in finished.tables for item in table.not_copied)
    print_not_copied(console, [*of_tables, *finished.not_copied])
    failed = [table for table in finished.tables if table.status != "done"]
    if failed:
        _heading(console, "tables that are not done")
    for table in failed:
        _print_failed_table(console, table)


def _print_failed_table(console: Console, table: BatchTable) -> None:
    what = Text.assemble(
        "  ", (one_line(table.table), STYLES["error"]), f" {table.status}, run {table.run_id}"
    )
    print_line(console, what)
    for line in error_lines(table.error) if table.error else ():
        print_line(console, Text(f"    {line}"))
    for failure in table.failures[:_MOST_FAILURES]:
        _print_failure(
            console, failure.partition_id, failure.label, failure.attempts, failure.error, "    "
        )
    if len(table.failures) > _MOST_FAILURES:
        more = len(table.failures) - _MOST_FAILURES
        line = f"    and {counted(more, 'partition')} more: penstock status {table.run_id} has all"
        print_line(console, Text(line))


def _print_time(console: Console, finished: Finished) -> None:
    rest = max(0.0, finished.busy - finished.wait_source - finished.wait_target)
    _heading(console, "where the streams' time went")
    console.print(
        make_table(
            console,
            [
                Column(""),
                Column("seconds", right=True),
                Column("%", right=True),
            ],
            [
                [f"  {name}", f"{spent:,.1f}", f"{100 * spent / finished.busy:.1f}"]
                for name, spent in (
                    ("waiting for source", finished.wait_source),
                    ("waiting for target", finished.wait_target),
                    ("rest", rest),
                )
            ],
        )
    )


def _print_slowest(console: Console, finished: Finished) -> None:
    _heading(console, "slowest partitions (source, target: share of time spent waiting for it)")
    rows: list[list[RenderableType]] = []
    for timing in finished.timings[:_SLOWEST]:
        seconds = max(timing.seconds, 0.001)
        rows.append(
            [
                f"  {one_line(timing.partition_id)}",
                Shortened(one_line(timing.label)),
                number(timing.rows),
                f"{timing.seconds:,.1f}",
                megabytes(timing.bytes / seconds),
                f"{100 * timing.wait_source / seconds:.0f}%",
                f"{100 * timing.wait_target / seconds:.0f}%",
            ]
        )
    console.print(
        make_table(
            console,
            [
                Column("  partition"),
                Column("what it selects", wide=True, from_width=76),
                Column("rows", right=True, from_width=36),
                Column("seconds", right=True),
                Column("MB/s", right=True, from_width=48),
                Column("source", right=True, from_width=60),
                Column("target", right=True, from_width=60),
            ],
            rows,
        )
    )


def _print_failure(
    console: Console,
    partition_id: str,
    label: str,
    attempts: int,
    error: Mapping[str, Any],
    indent: str = "  ",
) -> None:
    # Data of partition, message and context may be long: it wraps, nothing is cut off.
    what = Text.assemble(
        indent,
        (one_line(partition_id), STYLES["error"]),
        f" ({one_line(label)})" if label else "",
        f", {counted(attempts, 'attempt')}",
    )
    print_line(console, what)
    for line in error_lines(error):
        print_line(console, Text(f"{indent}  {line}"))


def print_status(console: Console, status: RunStatus) -> None:
    """A run as its target has it at this moment."""
    run = status.run
    plan = run.plan
    done = {record.partition_id for record in status.committed}
    running = {attempt.partition_id for attempt in status.running}
    pending = [
        position
        for position, partition in enumerate(plan.partitions)
        if partition.id not in done and partition.id not in running
    ]
    console.print(
        Text.assemble(
            "run ",
            (run.run_id, "bold"),
            " ",
            (run.status, _STATUS_STYLES.get(run.status, "bold")),
        )
    )
    facts: list[tuple[str, str | Text]] = [("created", run.created_at)]
    if run.prepared_at:
        facts.append(("prepared", run.prepared_at))
    if run.finished_at:
        facts.append(("finished", run.finished_at))
    facts += _spec_facts(run.spec, plan.strategy)
    facts += [
        ("partitions", f"{len(done):,} of {len(plan.partitions):,} committed"),
        ("rows", number(sum(record.rows for record in status.committed))),
        ("bytes", size(sum(record.bytes for record in status.committed))),
        ("running", number(len(running))),
    ]
    if len(run.snapshots) > 1:
        facts.append(("snapshots", number(len(run.snapshots))))
    for moment, partitions in read_later(status.committed).items():
        facts.append(("read later", f"{one_line(named(partitions))}, as of {moment}"))
    steps = plan.load.after
    if steps:
        left = [step.name for step in steps if step.id not in status.steps_done]
        facts.append(("steps", f"{len(steps) - len(left):,} of {len(steps):,} done after the last"))
        facts += [("to do", one_line(name)) for name in left]
    if pending:
        ids = [one_line(partition.id) for partition in plan.partitions]
        facts.append(("pending", f"{len(pending):,}: {_spans(ids, pending)}"))
    _facts(console, facts)
    if status.running:
        _heading(console, "running attempts")
        console.print(
            make_table(
                console,
                [
                    Column("  partition"),
                    Column("attempt", right=True),
                    Column("bytes", right=True),
                    Column("state", from_width=50),
                    Column("since", wide=True, from_width=70),
                ],
                [
                    [
                        f"  {one_line(item.partition_id)}",
                        number(item.attempt),
                        size(item.bytes),
                        one_line(item.state),
                        one_line(item.since),
                    ]
                    for item in status.running
                ],
            )
        )
    print_not_copied(console, plan.load.not_copied)
    if run.failures:
        _heading(console, "failures")
        for failure in run.failures:
            _print_failure(
                console,
                str(failure.get("partition_id", "?")),
                str(failure.get("label", "")),
                int(failure.get("attempts", 0)),
                failure.get("error", {}),
            )


def _spec_facts(spec: Mapping[str, Any], strategy: str) -> list[tuple[str, str | Text]]:
    table, target_table = spec.get("table"), spec.get("target_table")
    names = [name for name in (table, target_table) if name]
    # Two of the same name, or one that the other end has no name for: URLs say the rest.
    names = names[:1] if len(set(names)) < 2 else names
    key = f" of {spec['key']}" if spec.get("key") else ""
    facts = [
        ("table", " to ".join(names)),
        ("query", spec.get("query")),
        ("source", spec.get("source")),
        ("target", spec.get("target")),
        ("strategy", f"{strategy}{key}"),
        ("mode", spec.get("mode")),
        ("where", spec.get("where")),
        ("columns", ", ".join(spec.get("columns") or ())),
    ]
    return [(name, one_line(str(value))) for name, value in facts if value]


def _spans(ids: Sequence[str], positions: Sequence[int]) -> str:
    """Neighbours in the plan as `first to last`, and no more than a few."""
    spans: list[list[int]] = []
    for position in positions:
        if spans and spans[-1][-1] == position - 1:
            spans[-1][1:] = [position]
        else:
            spans.append([position])
    texts = [" to ".join(ids[position] for position in span) for span in spans[:_MOST_PENDING]]
    more = sum(1 if len(span) == 1 else span[1] - span[0] + 1 for span in spans[_MOST_PENDING:])
    return ", ".join(texts) + (f" and {more:,} more" if more else "")


def print_verification(console: Console, verification: Verification) -> None:
    """What was compared. Of many checks, those that agree are left out past the first few."""
    console.print(
        Text.assemble(
            "run ",
            (verification.run_id, "bold"),
            " ",
            ("verified", "bold green") if verification.ok else ("NOT verified", "bold red"),
        )
    )
    for text in verification.notes:
        print_line(console, Text(f"  {one_line(text)}"))
    console.print()
    checks = list(verification.checks)
    if len(checks) > _MOST_ROWS:
        room = _FIRST_ROWS
        kept: list[Check] = []
        for check in checks:
            good = check.ok and check.partition_id is not None
            if good:
                room -= 1
            if not good or room >= 0:
                kept.append(check)
        checks = kept
    rows: list[list[RenderableType]] = [
        [
            "all" if check.partition_id is None else one_line(check.partition_id),
            Shortened(one_line(check.label)),
            number(check.committed) if check.committed is not None else "",
            number(check.source) if check.source is not None else "",
            number(check.target) if check.target is not None else "",
            Text("ok", style="green") if check.ok else Text("WRONG", style="bold red"),
        ]
        for check in checks
    ]
    console.print(
        make_table(
            console,
            [
                Column("partition"),
                Column("what it selects", wide=True, from_width=76),
                Column("committed", right=True, from_width=60),
                Column("source", right=True, from_width=36),
                Column("target", right=True, from_width=48),
                Column("", width=5),
            ],
            rows,
        )
    )
    differing = [(check, row) for check in checks for row in check.rows]
    if differing:
        _heading(console, "rows that differ (up to 20 of each partition)")
    for check, row in differing:
        name = "all" if check.partition_id is None else one_line(check.partition_id)
        print_line(
            console,
            Text.assemble("  ", (name, STYLES["error"]), f" {one_line(row.key)}: {row.what}"),
        )
    noted = [check for check in checks if check.note]
    if noted:
        _heading(console, "notes")
    for check in noted:
        name = "all" if check.partition_id is None else one_line(check.partition_id)
        style = "" if check.ok else STYLES["error"]
        print_line(console, Text.assemble("  ", (name, style), f": {one_line(check.note)}"))
    out = len(verification.checks) - len(checks)
    if out:
        console.print()
        console.print(Text(f"{counted(out, 'check')} that agree left out: --json gives all"))
