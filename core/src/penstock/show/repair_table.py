"""The ranges of a repair as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.show.console import (
    Console,
    ShortenedText,
    Text,
    TextColumn,
    make_table,
    print_line,
)
from penstock.show.text import number, one_line, quantity

if TYPE_CHECKING:
    from rich.console import RenderableType

    from penstock.run.repair import Repair

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
