"""The cost of loading a table with a primary key and two indexes, in every mode."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.bench import Bench
from benchmarks.cost import run
from benchmarks.movers import penstock_command
from benchmarks.report import Limit, show_table, tell

SCHEMA = "modes"
TABLE = f"{SCHEMA}.lineitem"
DEGREE = 2
BASE = "truncate, indexes kept"
# In the order of each turn; upsert needs the rows of the mode before it.
WAYS: Mapping[str, Sequence[str]] = {
    BASE: ["--mode", "truncate"],
    "truncate, indexes deferred": ["--mode", "truncate", "--indexes", "defer"],
    "truncate, unlogged, indexes deferred": [
        *("--mode", "truncate", "--unlogged", "--indexes", "defer"),
    ],
    "swap": ["--mode", "swap"],
    "swap, unlogged": ["--mode", "swap", "--unlogged"],
    "recreate": ["--mode", "recreate"],
    "recreate, unlogged": ["--mode", "recreate", "--unlogged"],
    "upsert, 10 % of the rows changed": ["--mode", "upsert"],
    "upsert, nothing changed": ["--mode", "upsert"],
}


def measure(bench: Bench, scale: float, repeat: int) -> Walls:
    """Load lineitem in each way, `repeat` times.

    Args:
        bench: the source and the target.
        scale: the scale factor of TPC-H; 1 is about 6 million rows of lineitem.
        repeat: the number of times that each way is measured.
    """
    tell(f"modes: loading lineitem at scale {scale:g}, with a primary key and two indexes")
    rows = bench.load_tpch(SCHEMA, scale)
    bench.on_target("DROP TABLE modes.lineitem")
    bench.on_source("ALTER TABLE modes.lineitem ADD PRIMARY KEY (l_orderkey, l_linenumber)")
    bench.on_source("CREATE INDEX ON modes.lineitem (l_shipdate)")
    bench.on_source("CREATE INDEX ON modes.lineitem (l_partkey, l_suppkey)")
    bench.on_source("VACUUM (ANALYZE) modes.lineitem")
    run([penstock_command("copy", bench, TABLE, DEGREE, "--mode", "recreate")])
    walls: dict[str, list[float]] = {}
    for turn in range(repeat):
        for way, options in WAYS.items():
            if way.startswith("upsert, 10"):
                bench.on_target(
                    "UPDATE modes.lineitem SET l_comment = 'old', l_tax = l_tax + 1"
                    " WHERE l_orderkey % 10 = 3"
                )
                bench.on_target("VACUUM (ANALYZE) modes.lineitem")
            bench.on_source("CHECKPOINT")
            bench.on_target("CHECKPOINT")
            begun = time.monotonic()
            run([penstock_command("copy", bench, TABLE, DEGREE, *options)])
            wall = time.monotonic() - begun
            bench.check(TABLE, rows)
            walls.setdefault(way, []).append(wall)
            tell(f"turn {turn + 1} of {repeat}, {way}: {wall:.2f} s")
    return Walls(
        f"lineitem with a primary key and two indexes, {rows:,} rows, degree {DEGREE}: "
        f"wall time, best of {repeat}",
        rows,
        {way: min(found) for way, found in walls.items()},
        "indexes kept",
    )


class Walls:
    """The wall times of each way, compared with those of the first.

    Args:
        walls: seconds, the best of all turns.
        over: the name of the first way, for the column's head.
    """

    def __init__(self, title: str, rows: int, walls: dict[str, float], over: str) -> None:
        self._title = title
        self._rows = rows
        self._walls = walls
        self._over = over

    def show(self) -> None:
        base = next(iter(self._walls.values()))
        show_table(
            self._title,
            ["way", "seconds", f"over {self._over}"],
            [[way, f"{wall:.1f}", f"{wall / base:.2f}"] for way, wall in self._walls.items()],
        )

    def limits(self) -> list[Limit]:
        return []

    def as_json(self) -> dict[str, Any]:
        return {"rows": self._rows, "degree": DEGREE, "seconds": self._walls}
