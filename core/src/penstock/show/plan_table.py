"""A plan as a table, and the objects that a copy leaves out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

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
from penstock.show.text import not_copied_lines, number, one_line, quantity, size

if TYPE_CHECKING:
    from rich.console import RenderableType

    from penstock.backends.api.execution.control import RunRow
    from penstock.model.plans import PartitionPlan
    from penstock.model.tables import NotCopied

_MOST_ROWS = 40
_FIRST_ROWS = 20
_LAST_ROWS = 10


def print_created(console: Console, run: RunRow) -> None:
    """Print a run that is stored and has not started."""
    print_plan(console, run.plan)
    console.print(f"run {run.run_id}")


def print_plan(console: Console, plan: PartitionPlan) -> None:
    """Print strategy and reasons, warnings, estimates and the partitions."""
    console.print(
        Text.assemble(
            (quantity(len(plan.partitions), "partition"), "bold"),
            " by ",
            (plan.strategy, "bold"),
        )
    )
    for reason in plan.reasons:
        print_line(console, Text(f"  {one_line(reason)}"))
    for warning in plan.warnings:
        print_line(console, Text(f"warning: {one_line(warning)}", style=STYLES["warning"]))
    print_not_copied(console, plan.load.not_copied)
    print_facts(
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
            print_heading(console, title)
            for step in steps:
                print_line(console, Text(f"  {one_line(step.name)}"))
    console.print()
    rows: list[list[RenderableType]] = [
        [
            one_line(partition.id),
            ShortenedText(one_line(str(partition.extent))),
            number(partition.rows),
            size(partition.bytes),
        ]
        for partition in plan.partitions
    ]
    columns = [
        TextColumn("partition"),
        TextColumn("what it selects", wide=True, from_width=40),
        TextColumn("rows", right=True),
        TextColumn("bytes", right=True, from_width=60),
    ]
    if any(partition.child for partition in plan.partitions):
        columns.insert(2, TextColumn("child table", wide=True, from_width=100))
        for row, partition in zip(rows, plan.partitions, strict=True):
            row.insert(2, ShortenedText(one_line(str(partition.child or ""))))
    out = len(rows) - _FIRST_ROWS - _LAST_ROWS
    if len(rows) > _MOST_ROWS:
        empty = [""] * (len(columns) - 2)
        gap: list[RenderableType] = ["…", ShortenedText(f"{out:,} left out"), *empty]
        rows = [*rows[:_FIRST_ROWS], gap, *rows[-_LAST_ROWS:]]
    console.print(make_table(console, columns, rows))
    if len(plan.partitions) > _MOST_ROWS:
        console.print()
        console.print(
            Text(
                f"{_FIRST_ROWS + _LAST_ROWS} of {len(plan.partitions):,} partitions shown, "
                f"{out:,} left out: --json shows all of them"
            )
        )


def print_not_copied(console: Console, items: Sequence[NotCopied]) -> None:
    """Print what a copy leaves out besides rows, and the statements that would create it."""
    for line in not_copied_lines(items):
        if line.startswith(" "):
            # In full, because people copy and paste statements.
            console.print(Text(line), soft_wrap=True)
        else:
            console.print()
            console.print(Text(line, style=STYLES["warning"]))
