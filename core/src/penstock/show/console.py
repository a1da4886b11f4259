"""A console for results: tables without rules, facts, headings.

On a terminal, rich draws them. Elsewhere, texts that fit are written unchanged, because importing
rich takes longer than writing the report of a small copy.
"""

# ruff: noqa: PLC0415 - rich is imported only to draw

from __future__ import annotations

import errno
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, TextIO

from penstock.show.text import cells, shorten

if TYPE_CHECKING:
    from rich.console import Console as RichConsole
    from rich.console import ConsoleOptions, RenderableType, RenderResult
    from rich.measure import Measurement
    from rich.table import Table as RichTable
    from rich.text import Text as RichText

STYLES: Mapping[str, str] = {
    "plain": "",
    "good": "green",
    "warning": "yellow",
    "error": "bold red",
}
# Variables that change what rich writes to a file.
_FOR_RICH = ("FORCE_COLOR", "TTY_COMPATIBLE")
_WIDTH = 80


class Console(Protocol):
    """The console that results are printed on: rich's or a plain one."""

    @property
    def is_terminal(self) -> bool: ...

    @property
    def width(self) -> int: ...

    def print(self, shown: RenderableType = "", /, *, soft_wrap: bool = False) -> None: ...


class Text:
    """Text with styles; a plain console writes only the words."""

    def __init__(self, text: str = "", style: str = "") -> None:
        self._parts: list[tuple[str, str]] = [(text, style)]

    @classmethod
    def assemble(cls, *parts: str | tuple[str, str] | Text) -> Text:
        text = cls()
        text._parts = []
        for part in parts:
            if isinstance(part, Text):
                text._parts += part._parts
            else:
                text._parts.append((part, "") if isinstance(part, str) else part)
        return text

    @property
    def plain(self) -> str:
        return "".join(text for text, _ in self._parts)

    def __rich__(self) -> RichText:
        from rich.text import Text as RichText

        if len(self._parts) == 1:
            return RichText(*self._parts[0])
        return RichText.assemble(*self._parts)


class ShortenedText:
    """Text whose middle is left out if there is not enough room."""

    def __init__(self, text: str, style: str = "") -> None:
        self.plain = text
        self._style = style

    def __rich_console__(self, console: RichConsole, options: ConsoleOptions) -> RenderResult:
        from rich.text import Text as RichText

        text = shorten(self.plain, options.max_width)
        yield RichText(text, style=self._style, no_wrap=True, overflow="crop")

    def __rich_measure__(self, console: RichConsole, options: ConsoleOptions) -> Measurement:
        from rich.cells import cell_len
        from rich.measure import Measurement

        return Measurement(1, max(1, cell_len(self.plain)))


@dataclass(frozen=True, slots=True)
class TextColumn:
    """A table column, left out if the console is narrower than `from_width`."""

    title: str
    right: bool = False
    wide: bool = False
    """Whether the column takes the remaining width."""
    width: int | None = None
    from_width: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """A table without rules.

    Args:
        expand: use the console's whole width.
    """

    columns: Sequence[TextColumn]
    rows: Sequence[Sequence[RenderableType]]
    expand: bool

    def __rich__(self) -> RichTable:
        from rich.table import Table as RichTable

        table = RichTable(
            box=None, pad_edge=False, padding=(0, 1), header_style="dim", expand=self.expand
        )
        for item in self.columns:
            table.add_column(
                ShortenedText(item.title, "dim") if item.wide else item.title,
                justify="right" if item.right else "left",
                ratio=1 if item.wide and self.expand else None,
                min_width=item.width,
                no_wrap=not item.wide,
                overflow="ellipsis",
            )
        for row in self.rows:
            table.add_row(*row)
        return table

    def lines(self, width: int | None) -> list[str] | None:
        """Return the table as plain text; None if it must be drawn.

        Args:
            width: the columns that it must fit, in ASCII; None for any text in one line a row.
        """
        rows: list[Sequence[RenderableType]] = [[item.title for item in self.columns], *self.rows]
        read = _plain if width is not None else _whole
        texts = [[text for item in row if (text := read(item)) is not None] for row in rows]
        if self.expand or [*map(len, texts)] != [*map(len, rows)]:
            return None
        widths = [
            max(item.width or 0, *(cells(row[position]) for row in texts))
            for position, item in enumerate(self.columns)
        ]
        if width is not None and (not all(widths) or sum(widths) + 2 * (len(widths) - 1) > width):
            return None
        return [
            "  ".join(
                " " * (wide - cells(text)) + text
                if item.right
                else text + " " * (wide - cells(text))
                for text, wide, item in zip(row, widths, self.columns, strict=True)
            )
            for row in texts
        ]


class _PlainConsole:
    """A console that writes to a file like rich, and calls rich only for what may not fit."""

    is_terminal = False

    def __init__(self, file: TextIO, width: int) -> None:
        self.file = file
        self.width = width

    def print(self, shown: RenderableType = "", /, *, soft_wrap: bool = False) -> None:
        lines = self._lines(shown, soft_wrap)
        if lines is None:
            rich_console(self.file, self.width).print(shown, soft_wrap=soft_wrap)
        else:
            self.file.write("".join(f"{line}\n" for line in lines))

    def _lines(self, item: RenderableType, soft_wrap: bool) -> list[str] | None:
        if isinstance(item, Table):
            return item.lines(self.width)
        text = _plain(item)
        return [text] if text is not None and (soft_wrap or len(text) <= self.width) else None


def _plain(item: RenderableType) -> str | None:
    """Return the plain text of a cell; None if rich would render it differently."""
    text = item.plain if isinstance(item, Text | ShortenedText) else item
    if not isinstance(text, str) or text != text.rstrip():
        return None
    return text if text.isascii() and text.isprintable() else None


def _whole(item: RenderableType) -> str | None:
    """Return the whole text of a cell; None if only rich knows it."""
    text = item.plain if isinstance(item, Text | ShortenedText) else item
    return text if isinstance(text, str) else None


def make_console(file: TextIO, width: int | None = None) -> Console:
    """Create a console for results; plain unless on a terminal, or if variables ask for colours."""
    if file.isatty() or any(name in os.environ for name in _FOR_RICH) or _has_terminal():
        return rich_console(file, width)
    columns = os.environ.get("COLUMNS", "")
    return _PlainConsole(file, width or int(columns if columns.isdecimal() else 0) or _WIDTH)


def _has_terminal() -> bool:
    """Whether a standard stream is a terminal, whose width then applies to a pipe as well."""
    return any(map(os.isatty, range(3)))


def rich_console(file: TextIO, width: int | None = None) -> RichConsole:
    """Create a console for texts that hold data: no markup, no emoji, no highlighting."""
    from rich.console import Console as RichConsole

    class PipeConsole(RichConsole):
        """A console whose reader may close the pipe; rich itself would exit the process then."""

        def on_broken_pipe(self) -> None:
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))

    # https://no-color.org: rich itself would still write bold and dim text.
    colours: Literal["auto"] | None = None if os.environ.get("NO_COLOR") else "auto"
    return PipeConsole(
        file=file, width=width, markup=False, emoji=False, highlight=False, color_system=colours
    )


def make_table(
    console: Console,
    columns: Sequence[TextColumn],
    rows: Sequence[Sequence[RenderableType]],
    *,
    expand: bool = False,
) -> Table:
    """Create a table without rules, and without columns that do not fit: half a number misleads.

    Args:
        console: the console, whose width decides which columns are shown.
        columns: all columns.
        rows: a cell for each of these columns, shown or not.
        expand: whether a wide column takes up the rest of the console's width.
    """
    shown = [position for position, item in enumerate(columns) if console.width >= item.from_width]
    return Table(
        [columns[position] for position in shown],
        [[row[position] for position in shown] for row in rows],
        # Without a wide column, the others would spread over the whole width.
        expand and any(columns[position].wide for position in shown),
    )


def print_names(
    console: Console, columns: Sequence[TextColumn], rows: Sequence[Sequence[RenderableType]]
) -> None:
    """Print a table whose wide column has names; only a terminal's width shortens them.

    Args:
        console: the console, whose width decides which other columns are shown.
        columns: all columns.
        rows: a cell for each of these columns, shown or not.
    """
    table = make_table(console, columns, rows)
    lines = None if console.is_terminal else table.lines(None)
    if lines is None:
        console.print(table)
        return
    for line in lines:
        console.print(Text(line.rstrip()), soft_wrap=True)


def print_line(console: Console, text: Text | RichText) -> None:
    """Print one line; terminals wrap it with a hanging indent, files get it unchanged."""
    if not console.is_terminal:
        console.print(text, soft_wrap=True)
        return
    from rich.padding import Padding

    drawn = text.__rich__() if isinstance(text, Text) else text
    indent = len(drawn.plain) - len(drawn.plain.lstrip())
    console.print(Padding(drawn[indent:], (0, 0, 0, indent), expand=False))


def print_facts(console: Console, facts: Sequence[tuple[str, str | Text]]) -> None:
    """Print names and values in two aligned columns.

    Args:
        console: the console for results.
        facts: names and their values, at least one.
    """
    width = max(len(name) for name, _ in facts)
    for name, value in facts:
        if console.is_terminal and console.width >= 40:
            from rich.table import Table as RichTable

            table = RichTable.grid(padding=(0, 2))
            table.add_column(style="dim", min_width=width + 2, no_wrap=True)
            table.add_column(overflow="fold")
            table.add_row(f"  {name}", value)
            console.print(table)
        else:
            print_line(console, Text.assemble("  ", (name.ljust(width), "dim"), "  ", value))


def print_heading(console: Console, text: str) -> None:
    """Print an empty line and a heading."""
    console.print()
    console.print(Text(text, style="bold"))
