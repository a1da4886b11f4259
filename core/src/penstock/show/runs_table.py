"""Runs as a table, and the tables of a batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.backends.api.execution.control import GIVEN_UP
from penstock.show.console import Console, ShortenedText, Text, TextColumn, print_facts, print_names
from penstock.show.folding import FEW
from penstock.show.plan_table import print_not_copied
from penstock.show.run_report import STATUS_STYLES
from penstock.show.text import duration, moment, number, one_line, shorten

if TYPE_CHECKING:
    from rich.console import RenderableType

    from penstock.engine.listing import RunEntry
    from penstock.model.tables import NotCopied

# A query may be long. No name of a schema and a table is longer than this.
_LONGEST = 511
# Tables of a batch to list.
_MOST_UNDONE = 40


def print_runs(console: Console, entries: Sequence[RunEntry]) -> None:
    """Print runs, the newest first, one a line."""
    if not entries:
        console.print("no runs")
        return
    rows: list[list[RenderableType]] = [
        [
            entry.run_id,
            ShortenedText(_route_text(entry)),
            entry.mode,
            Text(_status(entry), style=STATUS_STYLES.get(entry.status, "bold")),
            f"{entry.committed:,} of {entry.partitions:,}",
            number(entry.rows),
            moment(entry.created_at),
            "" if entry.seconds is None else duration(entry.seconds),
        ]
        for entry in entries
    ]
    columns = [
        TextColumn("run"),
        TextColumn("table", wide=True),
        TextColumn("mode", from_width=90),
        TextColumn("status"),
        TextColumn("partitions", right=True),
        TextColumn("rows", right=True, from_width=70),
        TextColumn("created", from_width=110),
        TextColumn("time", right=True, from_width=80),
    ]
    print_names(console, columns, rows)


def print_batch_runs(
    console: Console,
    batch_id: str,
    entries: Sequence[RunEntry],
    missing: str = "",
    dropped: Sequence[NotCopied] = (),
) -> None:
    """Print the status of the tables of a batch.

    Args:
        console: the console for results.
        batch_id: the id of the batch.
        entries: the runs of the batch.
        missing: the text for tables that have no run.
        dropped: foreign keys that are missing until the batch is resumed.
    """
    status = batch_status(entries, all_planned=not missing)
    style = STATUS_STYLES.get(status, "bold")
    console.print(Text.assemble("batch ", (batch_id, "bold"), " ", (status, style)))
    each = Counter(entry.status for entry in entries)
    print_facts(
        console,
        [
            ("tables", ", ".join(f"{count:,} {name}" for name, count in each.items())),
            (
                "partitions",
                f"{sum(entry.committed for entry in entries):,} of "
                f"{sum(entry.partitions for entry in entries):,} committed",
            ),
            ("rows", number(sum(entry.rows for entry in entries))),
        ],
    )
    if missing:
        console.print(Text(missing, style="yellow"))
    print_not_copied(console, dropped)
    if len(entries) <= FEW:
        console.print()
        print_runs(console, entries)
        return
    undone = [entry for entry in entries if entry.status != "done"]
    if undone:
        console.print()
        print_runs(console, undone[:_MOST_UNDONE])
    if (more := len(undone) - _MOST_UNDONE) > 0:
        console.print(f"and {more:,} more that are not done")
    console.print()
    console.print("tables that are done are not listed: --json shows all")


def batch_status(entries: Sequence[RunEntry], *, all_planned: bool) -> str:
    """Return ``done`` if all tables are done; otherwise the status that most needs attention.

    Args:
        entries: the runs of the batch.
        all_planned: each table of the batch has a run.
    """
    statuses = {entry.status for entry in entries} | (set() if all_planned else {"partial"})
    order = ("running", "killed", "failed", "interrupted", GIVEN_UP, "partial", "created", "done")
    return next(name for name in order if name in statuses)


def _route_text(entry: RunEntry) -> str:
    what = shorten(one_line(entry.source), _LONGEST)
    return what if entry.target == entry.source else f"{what} to {one_line(entry.target)}"


def _status(entry: RunEntry) -> str:
    unknown = entry.status == "running" and entry.at_work is None
    return f"{entry.status}?" if unknown else entry.status
