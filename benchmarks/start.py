"""The fixed cost of a copy: a table of one row."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

from benchmarks import row_by_row
from benchmarks.bench import Bench
from benchmarks.cost import Cost, run
from benchmarks.cost import measure as cost_of
from benchmarks.movers import penstock_command
from benchmarks.report import Limit, show_table, tell

TABLE = "public.one_row"
MOST_CPU = 0.35
# A single copy is short, so other load on the machine distorts it.
COPIES_PER_TURN = 5


def measure(bench: Bench, repeat: int) -> Starts:
    """Copy one row by command line and by pipe, and start a Python that imports psycopg."""
    bench.on_source("CREATE TABLE one_row AS SELECT 1 AS id, 'x' AS word")
    bench.on_target("CREATE UNLOGGED TABLE one_row (id integer, word text)")
    psql = [str(bench.source.psql), "-X", "-q", "-v", "ON_ERROR_STOP=1"]
    out = row_by_row.copy_out(TABLE, "0:").as_string(None)
    into = row_by_row.copy_in(TABLE).as_string(None)
    commands: dict[str, list[Sequence[str]]] = {
        "penstock": [penstock_command("copy", bench, TABLE, 1)],
        "psql pipe": [
            [*psql, "-d", bench.source_url, "-c", out],
            [*psql, "-d", bench.target_url, "-c", into],
        ],
        "import psycopg": [[sys.executable, "-c", "import psycopg"]],
    }
    costs: dict[str, list[Cost]] = {name: [] for name in commands}
    for turn in range(-1, repeat * COPIES_PER_TURN):
        for name, pipeline in commands.items():
            bench.reset(TABLE)
            cost = cost_of(bench.source, bench.target, partial(run, pipeline))
            bench.check(TABLE, 0 if name == "import psycopg" else 1)
            if turn >= 0:  # the first one writes bytecode
                costs[name].append(cost)
    tell(f"start: {repeat * COPIES_PER_TURN} copies of one row")
    return Starts(costs)


class Starts:
    def __init__(self, costs: dict[str, list[Cost]]) -> None:
        self._costs = costs

    def show(self) -> None:
        rows = []
        for name, costs in self._costs.items():
            walls, movers = [cost.wall for cost in costs], [cost.mover for cost in costs]
            figures = [f(values) for values in (walls, movers) for f in (min, statistics.median)]
            rows.append([name, *(f"{figure:.3f}" for figure in figures)])
        copies = len(self._costs["penstock"])
        show_table(
            f"a copy of one row: seconds, of {copies}",
            ["mover", "wall, best", "wall, median", "CPU mover, best", "CPU mover, median"],
            rows,
        )

    def limits(self) -> list[Limit]:
        best = min(cost.mover for cost in self._costs["penstock"])
        return [Limit("mover CPU of a copy of one row, seconds", best, MOST_CPU)]

    def as_json(self) -> dict[str, Any]:
        return {
            name: {"wall": [cost.wall for cost in costs], "mover": [cost.mover for cost in costs]}
            for name, costs in self._costs.items()
        }
