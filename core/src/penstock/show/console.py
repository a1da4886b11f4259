"""A console for results: tables without rules, facts, headings."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping, Sequence
from typing import TextIO

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from penstock.model.dataclass import dataclass
from penstock.show.text import shorten

STYLES: Mapping[str, str] = {
    "plain": "",
    "good": "green",
    "warning": "yellow",
    "error": "bold red",
}


class _PipeConsole(Console):
    """A console whose reader may go away: rich itself would exit the process then."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


def make_console(file: TextIO) -> Console:
    """A console for texts that hold data: no markup, no emoji, no highlighting."""
    return _PipeConsole(file=file, markup=False, emoji=False, highlight=False)


class Shortened:
    """A text that leaves out its middle if there is not enough room."""

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
    """Takes the space that the others leave."""
    width: int | None = None
    from_width: int = 0


def make_table(
    console: Console,
    columns: Sequence[Column],
    rows: Sequence[Sequence[RenderableType]],
    *,
    expand: bool = False,
) -> Table:
    """A table without rules. Columns that would not fit are left out: half a number misleads."""
    shown = [position for position, item in enumerate(columns) if console.width >= item.from_width]
    # Without a wide column, the others would spread over the whole width.
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
    """Print one line. A terminal wraps it with a hanging indent; a file gets it as it is."""
    if not console.is_terminal:
        console.print(text, soft_wrap=True)
        return
    indent = len(text.plain) - len(text.plain.lstrip())
    console.print(Padding(text[indent:], (0, 0, 0, indent), expand=False))


def print_facts(console: Console, facts: Sequence[tuple[str, str | Text]]) -> None:
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


def print_heading(console: Console, text: str) -> None:
    console.print()
    console.print(Text(text, style="bold"))
