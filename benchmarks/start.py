"""The fixed cost of a copy: a table of one row, and of none; and of the program's help."""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from benchmarks import row_by_row
from benchmarks.bench import Bench
from benchmarks.cost import Cost, run
from benchmarks.cost import measure as cost_of
from benchmarks.file_movers import PROGRAM
from benchmarks.movers import penstock_command
from benchmarks.report import Limit, show_table, tell

TABLE = "public.one_row"
EMPTY = "public.no_row"
ROW, FILE, HELP = "penstock, one row", "penstock, no rows to Parquet", "penstock --help"
MOST_CPU: Mapping[str, float] = {ROW: 0.2, FILE: 0.6, HELP: 0.1}
"""The most CPU of each, in seconds."""
PIPE = "psql pipe, one row"
# A single copy is short, so other load on the machine distorts it.
COPIES_PER_TURN = 5


def measure(bench: Bench, repeat: int) -> Starts:
    """Copy one row by command line and by pipe, and no rows into files; start what they import."""
    bench.on_source("CREATE TABLE one_row AS SELECT 1 AS id, 'x' AS word")
    bench.on_source("CREATE TABLE no_row (id integer, word text)")
    bench.on_target("CREATE UNLOGGED TABLE one_row (id integer, word text)")
    psql = [str(bench.source.psql), "-X", "-q", "-v", "ON_ERROR_STOP=1"]
    out = row_by_row.copy_out(TABLE, "0:").as_string(None)
    into = row_by_row.copy_in(TABLE).as_string(None)

    def commands(folder: str) -> dict[str, list[Sequence[str]]]:
        return {
            ROW: [penstock_command("copy", bench, TABLE, 1)],
            PIPE: [
                [*psql, "-d", bench.source_url, "-c", out],
                [*psql, "-d", bench.target_url, "-c", into],
            ],
            "import psycopg": [[sys.executable, "-c", "import psycopg"]],
            FILE: [
                [
                    *(PROGRAM, "copy", "--source", bench.source_url, "--table", EMPTY),
                    *("--target", f"{folder}/rows/", "--degree", "1"),
                ]
            ],
            "import pyarrow": [[sys.executable, "-c", "import pyarrow"]],
            HELP: [[PROGRAM, "--help"]],
            "python -c pass": [[sys.executable, "-c", "pass"]],
        }

    costs: dict[str, list[Cost]] = {}
    for turn in range(-1, repeat * COPIES_PER_TURN):
        with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
            for name, pipeline in commands(folder).items():
                bench.reset(TABLE)
                cost = cost_of(bench.source, bench.target, partial(run, pipeline))
                bench.check(TABLE, 1 if name in (ROW, PIPE) else 0)
                if turn >= 0:  # the first one writes bytecode
                    costs.setdefault(name, []).append(cost)
    tell(f"start: {repeat * COPIES_PER_TURN} starts of each")
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
        show_table(
            f"a start: seconds, of {len(self._costs[ROW])}",
            ["mover", "wall, best", "wall, median", "CPU mover, best", "CPU mover, median"],
            rows,
        )

    def limits(self) -> list[Limit]:
        return [
            Limit(f"CPU of {name}, seconds", min(cost.mover for cost in self._costs[name]), most)
            for name, most in MOST_CPU.items()
        ]

    def as_json(self) -> dict[str, Any]:
        return {
            name: {"wall": [cost.wall for cost in costs], "mover": [cost.mover for cost in costs]}
            for name, costs in self._costs.items()
        }
