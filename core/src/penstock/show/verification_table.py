"""A verification as a table, and the ranges that a repair copies again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.show.console import (
    STYLES,
    Console,
    ShortenedText,
    Text,
    TextColumn,
    make_table,
    print_heading,
    print_line,
)
from penstock.show.text import number, one_line, quantity

if TYPE_CHECKING:
    from rich.console import RenderableType

    from penstock.verification.result import Check, Verification

_MOST_CHECKS = 40
_FIRST_CHECKS = 20


def print_verification(console: Console, verification: Verification) -> None:
    """Print the checks; if there are many, only the first few that agree."""
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
    if len(checks) > _MOST_CHECKS:
        room = _FIRST_CHECKS
        shown: list[Check] = []
        for check in checks:
            good = check.ok and check.partition_id is not None
            if good:
                room -= 1
            if not good or room >= 0:
                shown.append(check)
        checks = shown
    rows: list[list[RenderableType]] = [
        [
            "all" if check.partition_id is None else one_line(check.partition_id),
            ShortenedText(one_line(check.label)),
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
                TextColumn("partition"),
                TextColumn("what it selects", wide=True, from_width=76),
                TextColumn("committed", right=True, from_width=60),
                TextColumn("source", right=True, from_width=36),
                TextColumn("target", right=True, from_width=48),
                TextColumn("", width=5),
            ],
            rows,
        )
    )
    differing = [(check, row) for check in checks for row in check.rows]
    if differing:
        print_heading(console, "rows that differ (up to 20 of each partition)")
    for check, row in differing:
        name = "all" if check.partition_id is None else one_line(check.partition_id)
        print_line(
            console,
            Text.assemble("  ", (name, STYLES["error"]), f" {one_line(row.key)}: {row.what}"),
        )
    noted = [check for check in checks if check.note]
    if noted:
        print_heading(console, "notes")
    for check in noted:
        name = "all" if check.partition_id is None else one_line(check.partition_id)
        style = "" if check.ok else STYLES["error"]
        print_line(console, Text.assemble("  ", (name, style), f": {one_line(check.note)}"))
    out = len(verification.checks) - len(checks)
    if out:
        console.print()
        console.print(Text(f"{quantity(out, 'check')} that agree left out: --json shows all"))


if TYPE_CHECKING:
    from rich.console import RenderableType

    from penstock.engine.repair import Repair

_MOST_RANGES = 40


def print_repair(console: Console, repair: Repair) -> None:
    """Print the differences, and how much was compared."""
    ranges = repair.ranges
    summary = f"{quantity(len(ranges), 'range')} of {number(repair.compared)}"
    differ = "differs" if len(ranges) == 1 else "differ"
    console.print(
        Text.assemble(
            "run ",
            (repair.of, "bold"),
            " ",
            (f"{summary} {differ}", "bold red")
            if ranges
            else (
                f"nothing to repair: {quantity(repair.compared, 'range')} compared",
                "bold green",
            ),
        )
    )
    for text in repair.notes:
        print_line(console, Text(f"  {one_line(text)}"))
    if not ranges:
        return
    rows: list[list[RenderableType]] = [
        [
            ShortenedText(one_line(str(each.partition.extent))),
            number(each.source),
            number(each.target),
        ]
        for each in ranges[:_MOST_RANGES]
    ]
    columns = [
        TextColumn("rows that are copied again", wide=True),
        TextColumn("source", right=True),
        TextColumn("target", right=True),
    ]
    console.print()
    console.print(make_table(console, columns, rows))
    if len(ranges) > _MOST_RANGES:
        console.print(Text(f"{quantity(len(ranges) - _MOST_RANGES, 'more range')}: --json has all"))
