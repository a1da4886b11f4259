"""The demo's output: headings, sentences, and commands before they run."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

WIDTH = 100


class Stage:
    """Prints the demo's output and remembers unexpected results."""

    def __init__(self) -> None:
        width = None if sys.stdout.isatty() else WIDTH
        self.console = Console(
            file=sys.stdout, width=width, markup=False, emoji=False, highlight=False
        )
        self._environment: dict[str, str] = {}
        self.checks: list[tuple[str, bool]] = []

    def title(self, text: str) -> None:
        self.console.print(Text(text, style="bold"))

    def heading(self, text: str) -> None:
        self.gap()
        self.console.rule(Text(text, style="bold cyan"), align="left", style="dim")

    def say(self, text: str) -> None:
        """Print a paragraph; its line breaks only wrap the source code."""
        self._indented(Text(" ".join(text.split())))

    def code(self, text: str) -> None:
        """Print a statement that the demo runs itself."""
        self._indented(Text(text, style="yellow"), 4)

    def gap(self) -> None:
        """Print an empty line."""
        self.console.print()

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Print a table with numbers on the right, and with a header if its columns have names."""
        table = Table(
            box=None,
            pad_edge=False,
            padding=(0, 1),
            header_style="dim",
            show_header=any(columns),
        )
        for position, name in enumerate(columns):
            figures = all(_is_number(row[position]) for row in rows)
            table.add_column(name, justify="right" if figures else "left", overflow="fold")
        for row in rows:
            table.add_row(*row)
        self.console.print(Padding(table, (0, 0, 0, 2), expand=False))

    def export(self, values: Mapping[str, str]) -> None:
        """Set variables for the commands that follow, as a user would in a shell."""
        self._environment.update(values)
        for name, value in values.items():
            self._prompt(f"export {name}={shlex.quote(value)}")

    def run(self, command: str, *, expect: int = 0) -> None:
        """Show a command, run it on our own terminal, and check its exit code."""
        self.gap()
        self._prompt(command)
        self.console.file.flush()
        words = shlex.split(command.replace("\\\n", ""))
        program = Path(sys.executable).with_name(words[0])
        running = subprocess.Popen(
            [program, *words[1:]],
            env={**os.environ, **self._environment},
            stdin=subprocess.DEVNULL,
        )
        try:
            code = running.wait()
        except KeyboardInterrupt:
            # The terminal has sent the signal to the command, too: let it clean up and report.
            running.wait()
            raise
        self.gap()
        if code or expect:
            self._indented(Text(f"exit code {code}", style="dim"))
        verb = " ".join(words[:2])
        self.check(f"{verb} ends with exit code {expect}", code == expect, quiet=True)

    def check(self, text: str, good: bool, *, quiet: bool = False) -> None:
        """Check whether something is as expected, and note the result.

        Args:
            text: what is expected.
            good: whether it is so.
            quiet: print it only if it is unexpected.
        """
        self.checks.append((text, good))
        if not good:
            self._indented(Text(f"WRONG  {text}", style="bold red"))
        elif not quiet:
            self._indented(Text.assemble(("ok  ", "green"), text))

    @property
    def good(self) -> bool:
        return all(good for _, good in self.checks)

    def _prompt(self, command: str) -> None:
        # Do not wrap it: text copied from the screen must be one command.
        self.console.print(Text.assemble(("$ ", "dim"), (command, "bold")), soft_wrap=True)

    def _indented(self, text: Text, by: int = 2) -> None:
        for line in text.wrap(self.console, self.console.width - by):
            line.rstrip()
            self.console.print(Text(" " * by) + line)


def _is_number(text: str) -> bool:
    return text.replace(",", "").replace(".", "").replace("-", "").isdigit()
