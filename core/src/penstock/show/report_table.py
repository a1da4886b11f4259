"""The report of an execution of a run or a batch, as tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from penstock.events import BatchFinished, BatchTable, Finished
from penstock.model.plans import id_list
from penstock.show.console import (
    STYLES,
    Console,
    ShortenedText,
    Text,
    TextColumn,
    make_table,
    print_facts,
    print_heading,
    print_line,
)
from penstock.show.folding import FEW, folded_lines
from penstock.show.plan_table import print_not_copied
from penstock.show.text import (
    PACED,
    duration,
    error_lines,
    megabytes,
    number,
    one_line,
    quantity,
    size,
)

if TYPE_CHECKING:
    from rich.console import RenderableType

STATUS_STYLES = {"done": "bold green", "partial": "bold yellow"}
_SLOWEST = 5
_MOST_FAILURES = 5
SlowPartition = tuple[str, str, int, int, float, tuple[float, float] | None]
"""Id, extent, rows, bytes, seconds, and the seconds of waiting for source and target, if known."""


def print_report(console: Console, finished: Finished, go_on: str, before: int = 0) -> None:
    """Print the report of an execution: what was done, where the time went, and what failed.

    Args:
        console: the console for results.
        finished: the last event of the execution.
        go_on: the command that continues the run; empty if none can.
        before: the number of partitions that earlier executions committed.
    """
    _print_ending(console, "run", finished.run_id, finished.status)
    seconds = max(finished.seconds, 0.001)
    since = f", {before:,} of them before this execution" if before else ""
    facts: list[tuple[str, str | Text]] = [
        ("partitions", f"{finished.committed:,} of {finished.partitions:,} committed{since}"),
        ("attempts", _attempts(finished, before)),
        ("rows", number(finished.rows) + (" in this execution" if before else "")),
        *_changes(finished),
        ("bytes", size(finished.bytes)),
        ("time", f"{duration(finished.seconds)}, {quantity(finished.degree, 'stream')}"),
        (
            "rate",
            f"{number(finished.rows / seconds)} rows/s, {megabytes(finished.bytes / seconds)} MB/s",
        ),
    ]
    if finished.snapshots > 1:
        warning = f"{finished.snapshots}: not all rows were read as of the same moment"
        facts.append(("snapshots", Text(warning, style=STYLES["warning"])))
    for later in finished.later:
        text = f"{one_line(id_list(later.partition_ids))}, as of {later.taken_at}"
        facts.append(("read later", Text(text, style=STYLES["warning"])))
    print_facts(console, facts)
    if finished.error is not None:
        print_heading(console, "what ended the run")
        for line in error_lines(finished.error):
            print_line(console, Text(f"  {line}"))
    if finished.busy > 0:
        _print_time(console, finished)
    if len(finished.timings) > 1:
        print_slowest(
            console,
            (
                (
                    timing.partition_id,
                    timing.label,
                    timing.rows,
                    timing.bytes,
                    timing.seconds,
                    (timing.wait_source, timing.wait_target),
                )
                for timing in finished.timings[:_SLOWEST]
            ),
        )
    if finished.failures:
        print_heading(console, "failures")
        for failure in finished.failures:
            print_failure(
                console, failure.partition_id, failure.label, failure.attempts, failure.error
            )
    print_not_copied(console, finished.not_copied)
    if go_on and (finished.committed < finished.partitions or finished.status == "failed"):
        print_heading(console, "continue with")
        console.print(Text(f"  {go_on}"), soft_wrap=True)


def _attempts(finished: Finished, before: int) -> str:
    failed = finished.attempts - (finished.committed - before)
    return number(finished.attempts) + (f", {failed:,} of them failed" if failed > 0 else "")


def _print_ending(console: Console, kind: str, run_id: str, status: str) -> None:
    style = STATUS_STYLES.get(status, "bold red")
    console.print(Text.assemble(f"{kind} ", (run_id, "bold"), " ", (status, style)))


def _changes(finished: Finished) -> list[tuple[str, str | Text]]:
    """Return what mode upsert did with the rows."""
    if finished.inserted is None or finished.updated is None:
        return []
    unchanged = finished.rows - finished.inserted - finished.updated
    deleted = f", {finished.deleted:,} deleted" if finished.deleted else ""
    return [
        (
            "changes",
            f"{finished.inserted:,} inserted, {finished.updated:,} updated, "
            f"{unchanged:,} unchanged{deleted}",
        )
    ]


def print_batch(console: Console, finished: BatchFinished) -> None:
    """Print the report of a batch: totals, what was slow, and what failed.

    Similar lines about many tables are folded into one.
    """
    _print_ending(console, "batch", finished.run_id, finished.status)
    tables = finished.tables
    done = sum(table.status == "done" for table in tables)
    seconds = max(finished.seconds, 0.001)
    spent = phases_text(finished.phases)
    print_facts(
        console,
        [
            ("tables", f"{done:,} of {len(tables):,} done"),
            ("rows", number(finished.rows)),
            ("bytes", size(finished.bytes)),
            ("time", duration(finished.seconds)),
            *([("of it", spent)] if spent else []),
            (
                "rate",
                f"{number(finished.rows / seconds)} rows/s, "
                f"{megabytes(finished.bytes / seconds)} MB/s",
            ),
        ],
    )
    if len(tables) > FEW:
        print_slowest_tables(
            console,
            (
                (table.table, table.rows, table.bytes, table.busy)
                for table in sorted(tables, key=lambda table: -table.busy)[:_SLOWEST]
                if table.busy
            ),
        )
    warnings = [(table.table, warning) for table in tables for warning in table.warnings]
    if warnings:
        print_heading(console, "warnings")
    for line in folded_lines(warnings):
        print_line(console, Text(f"  {line}", style=STYLES["warning"]))
    of_tables = (item for table in tables for item in table.not_copied)
    print_not_copied(console, [*of_tables, *finished.not_copied])
    failed = [table for table in tables if table.status != "done"]
    if failed:
        print_heading(console, "tables that are not done")
    if len(failed) > FEW:
        for line in folded_lines([(table.table, failure_line(table)) for table in failed]):
            print_line(console, Text(f"  {line}", style=STYLES["error"]))
        return
    for table in failed:
        _print_failed_table(console, table)


def phases_text(phases: Mapping[str, float]) -> str:
    """Return where the time of a batch went; empty if unknown."""
    return ", ".join(f"{phase} {duration(seconds)}" for phase, seconds in phases.items())


def print_slowest_tables(console: Console, slowest: Iterable[tuple[str, int, int, float]]) -> None:
    """Print the slowest tables.

    Args:
        console: the console for results.
        slowest: tables, their rows and bytes, and the seconds of their streams.
    """
    rows: list[list[RenderableType]] = [
        [f"  {one_line(name)}", number(count), size(moved), duration(seconds)]
        for name, count, moved, seconds in slowest
    ]
    if not rows:
        return
    print_heading(console, "slowest tables")
    columns = [
        TextColumn("  table"),
        TextColumn("rows", right=True),
        TextColumn("bytes", right=True, from_width=60),
        TextColumn("streams' time", right=True),
    ]
    console.print(make_table(console, columns, rows))


def failure_line(table: BatchTable) -> str:
    """Return the status and the first error in one line."""
    error = table.error or (table.failures[0].error if table.failures else None)
    return f"{table.status}: {error_lines(error)[0]}" if error else table.status


def _print_failed_table(console: Console, table: BatchTable) -> None:
    what = Text.assemble(
        "  ", (one_line(table.table), STYLES["error"]), f" {table.status}, run {table.run_id}"
    )
    print_line(console, what)
    for line in error_lines(table.error) if table.error else ():
        print_line(console, Text(f"    {line}"))
    for failure in table.failures[:_MOST_FAILURES]:
        print_failure(
            console, failure.partition_id, failure.label, failure.attempts, failure.error, "    "
        )
    if len(table.failures) > _MOST_FAILURES:
        more = len(table.failures) - _MOST_FAILURES
        line = (
            f"    and {quantity(more, 'partition')} more: penstock status {table.run_id} shows all"
        )
        print_line(console, Text(line))


def _print_time(console: Console, finished: Finished) -> None:
    moving = max(0.0, finished.busy - finished.wait_source - finished.wait_target - finished.paced)
    paced = [(PACED, finished.paced)] if finished.paced else []
    print_heading(console, "where the streams' time went")
    console.print(
        make_table(
            console,
            [
                TextColumn(""),
                TextColumn("seconds", right=True),
                TextColumn("share", right=True),
            ],
            [
                [f"  {name}", f"{spent:,.1f}", f"{spent / finished.busy:.1%}"]
                for name, spent in (
                    ("waiting for source", finished.wait_source),
                    ("waiting for target", finished.wait_target),
                    ("moving", moving),
                    *paced,
                )
            ],
        )
    )


def print_slowest(console: Console, slowest: Iterable[SlowPartition]) -> None:
    """Print the slowest partitions, with their rates and shares of waiting."""
    print_heading(
        console, "slowest partitions (source, target: share of time spent waiting for it)"
    )
    rows: list[list[RenderableType]] = []
    for name, label, count, moved, took, waits in slowest:
        seconds = max(took, 0.001)
        shares = [f"{part / seconds:.0%}" for part in waits] if waits else ["?", "?"]
        rows.append(
            [
                f"  {one_line(name)}",
                ShortenedText(one_line(label)),
                number(count),
                f"{seconds:,.1f}",
                megabytes(moved / seconds),
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
    console.print(make_table(console, columns, rows))


def print_failure(
    console: Console,
    partition_id: str,
    label: str,
    attempts: int,
    error: Mapping[str, Any],
    indent: str = "  ",
) -> None:
    """Print why a partition failed, without shortening the message.

    Args:
        console: the console for results.
        partition_id: the id of the partition.
        label: a description of the partition's rows; empty for none.
        attempts: the number of attempts that were made.
        error: the error, as in a ``failed`` event.
        indent: the spaces before the first line.
    """
    # Label, message and context may be long, so they wrap in full.
    what = Text.assemble(
        indent,
        (one_line(partition_id), STYLES["error"]),
        f" ({one_line(label)})" if label else "",
        f", {quantity(attempts, 'attempt')}",
    )
    print_line(console, what)
    for line in error_lines(error):
        print_line(console, Text(f"{indent}  {line}"))
