"""Tables, limits and progress, as text."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.backends.shared.resources import cpus


@dataclass(frozen=True)
class Limit:
    name: str
    value: float
    allowed: float

    @property
    def is_met(self) -> bool:
        return self.value <= self.allowed


def tell(text: str) -> None:
    """Print the current step on stderr, apart from the results."""
    print(text, file=sys.stderr, flush=True)


def show_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table in Markdown, which can go into README.md unchanged.

    Args:
        title: the line above the table.
        columns: the heads of the columns.
        rows: a cell for each column.
    """
    widths = [
        max(len(column), *(len(row[position]) for row in rows))
        for position, column in enumerate(columns)
    ]
    # Names are on the left, figures on the right.
    left_aligned = [
        any(row[position][:1].isalpha() for row in rows) for position in range(len(columns))
    ]

    def line(cells: Sequence[str]) -> str:
        padded = (
            cell.ljust(width) if is_left else cell.rjust(width)
            for cell, width, is_left in zip(cells, widths, left_aligned, strict=True)
        )
        return f"| {' | '.join(padded)} |"

    rules = (
        "-" * width if is_left else "-" * (width - 1) + ":"
        for width, is_left in zip(widths, left_aligned, strict=True)
    )
    print(f"\n{title}\n")
    print(line(columns), line(list(rules)), *map(line, rows), sep="\n")


def show_limits(limits: Sequence[Limit]) -> None:
    show_table(
        "limits",
        ["limit", "at most", "found", "result"],
        [
            [
                limit.name,
                f"{limit.allowed:.2f}",
                f"{limit.value:.2f}",
                "pass" if limit.is_met else "FAIL",
            ]
            for limit in limits
        ],
    )


def machine() -> str:
    """Return a description of this machine."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"{cpus()} CPUs ({_processor()}), {memory:.0f} GiB, {platform.system()}, "
        f"Python {platform.python_version()}"
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    for line in lines:
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
