"""The plans of many tables: sums first, then similar tables in one line."""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.show.console import (
    STYLES,
    Console,
    Text,
    TextColumn,
    make_table,
    print_facts,
    print_heading,
    print_line,
)
from penstock.show.folding import FEW, folded_lines
from penstock.show.plan_table import print_not_copied
from penstock.show.text import duration, error_lines, number, quantity, size

if TYPE_CHECKING:
    from rich.console import RenderableType

    from penstock.engine.batch_plan import BatchPlan, TablePlan
    from penstock.model.tables import NotCopied


@dataclass(frozen=True, slots=True, order=True)
class _Line:
    """A table with a line of its own."""

    bytes: int
    table: str
    partitioning: tuple[str, int]
    """The strategy and the number of partitions."""
    rows: int | None


@dataclass(slots=True)
class _TableGroup:
    """Tables that are partitioned in the same way."""

    tables: int = 0
    rows: int = 0
    bytes: int = 0


@dataclass(slots=True)
class PlanSums:
    """Sums of plans that are shown and not kept."""

    tables: int = 0
    partitions: int = 0
    rows: int = 0
    bytes: int = 0
    unknown: int = 0
    """Tables without an estimate of their rows."""
    modes: Counter[str] = field(default_factory=Counter)
    warnings: list[tuple[str, str]] = field(default_factory=list)
    """Warnings with their tables; errors have the same form."""
    errors: list[tuple[str, str]] = field(default_factory=list)
    not_copied: list[NotCopied] = field(default_factory=list)
    _largest: list[_Line] = field(default_factory=list)
    _groups: dict[tuple[str, int], _TableGroup] = field(default_factory=dict)

    def add(self, table: TablePlan) -> None:
        self.tables += 1
        if table.plan is None:
            self.errors.append((table.table, error_lines(table.error or {})[0]))
            return
        plan = table.plan
        self.modes[table.mode] += 1
        self.partitions += len(plan.partitions)
        self.rows += plan.rows or 0
        self.bytes += plan.bytes or 0
        self.unknown += plan.rows is None
        self.warnings += ((table.table, warning) for warning in plan.warnings)
        self.not_copied += plan.load.not_copied
        line = _Line(plan.bytes or 0, table.table, (plan.strategy, len(plan.partitions)), plan.rows)
        if len(self._largest) < FEW:
            heapq.heappush(self._largest, line)
        else:
            self._fold(heapq.heappushpop(self._largest, line))

    def _fold(self, line: _Line) -> None:
        group = self._groups.setdefault(line.partitioning, _TableGroup())
        group.tables += 1
        group.rows += line.rows or 0
        group.bytes += line.bytes

    def lines(self) -> list[list[str]]:
        """Return the largest tables, then one line for each group of tables partitioned alike."""
        rows = [
            [line.table, *_partitioning(line.partitioning), number(line.rows), size(line.bytes)]
            for line in sorted(self._largest, reverse=True)
        ]
        for partitioning, group in sorted(self._groups.items(), key=lambda item: -item[1].bytes):
            strategy, each = _partitioning(partitioning)
            each = each if group.tables == 1 else f"{each} each"
            figures = (number(group.rows), size(group.bytes))
            rows.append([quantity(group.tables, "more table"), strategy, each, *figures])
        return rows


def _partitioning(partitioning: tuple[str, int]) -> tuple[str, str]:
    strategy, partitions = partitioning
    return strategy, number(partitions)


def print_plans(console: Console, sums: PlanSums, end: BatchPlan) -> None:
    """Print the plans of a batch: sums, errors and warnings, then a table of the largest.

    Args:
        console: the console for results.
        sums: the sums of the plans.
        end: the last item of `plan_all`.
    """
    planned = sums.tables - len(sums.errors)
    head = quantity(sums.tables, "table")
    console.print(Text.assemble((head, "bold"), *([] if planned else [" cannot be copied"])))
    unknown = f", and those of {quantity(sums.unknown, 'table')}" if sums.unknown else ""
    modes = ", ".join(f"{mode} ({count:,})" for mode, count in sums.modes.most_common())
    print_facts(
        console,
        [
            ("estimated rows", number(sums.rows) + unknown),
            ("estimated bytes", size(sums.bytes)),
            ("partitions", number(sums.partitions)),
            *([("modes", modes)] if modes else []),
            *([("cannot be copied", number(len(sums.errors)))] if sums.errors else []),
            ("planned in", duration(end.seconds)),
        ],
    )
    for title, texts, style in (
        ("tables that cannot be copied", sums.errors, "error"),
        ("warnings", sums.warnings, "warning"),
    ):
        if texts:
            print_heading(console, title)
        for line in folded_lines(texts):
            print_line(console, Text(f"  {line}", style=STYLES[style]))
    print_not_copied(console, [*sums.not_copied, *end.not_copied])
    if not planned:
        return
    console.print()
    rows: list[list[RenderableType]] = [list(line) for line in sums.lines()]
    columns = [
        TextColumn("table"),
        TextColumn("strategy", from_width=60),
        TextColumn("partitions", right=True),
        TextColumn("rows", right=True),
        TextColumn("bytes", right=True, from_width=60),
    ]
    console.print(make_table(console, columns, rows))
    if planned > FEW:
        console.print()
        print_line(console, Text("the largest tables are shown by themselves: --json shows all"))
