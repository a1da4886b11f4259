"""The cost of an incremental night, compared with a copy of all rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import psycopg

from benchmarks.bench import Bench, WrongResult
from benchmarks.cost import Cost, measure, run
from benchmarks.movers import penstock_command
from benchmarks.report import Limit, show_table, tell

SCHEMA = "nights"
TABLE = f"{SCHEMA}.lineitem"
DEGREE = 2
ALL, NOTHING, CHANGED, DELETES, GONE = (
    "all rows (--mode truncate)",
    "a night, nothing changed",
    "a night, 0.1 % of the rows changed",
    "the same, with --deletes hard, nothing deleted",
    "the same, 100 rows deleted",
)
NIGHT = ("--mode", "upsert", "--incremental", "xmin")
MOST_OF_ALL, MOST_MOVER = 0.3, 0.3


def measure_nights(bench: Bench, scale: float, repeat: int) -> Nights:
    """Copy lineitem with a primary key: all rows first, then night by night.

    Args:
        bench: the source and the target.
        scale: the scale factor of TPC-H; 1 is about 6 million rows of lineitem.
        repeat: the number of times that each way is measured.
    """
    tell(f"nights: loading lineitem at scale {scale:g}, with a primary key")
    rows = bench.load_tpch(SCHEMA, scale)
    bench.on_source("ALTER TABLE nights.lineitem ADD PRIMARY KEY (l_orderkey, l_linenumber)")
    bench.on_source("VACUUM (ANALYZE) nights.lineitem")
    bench.on_target("DROP TABLE nights.lineitem")
    run([penstock_command("copy", bench, TABLE, DEGREE, "--mode", "recreate")])
    costs: dict[str, list[Cost]] = {}
    for turn in range(repeat):

        def note(way: str, options: Sequence[str], turn: int = turn) -> None:
            bench.on_source("CHECKPOINT")
            bench.on_target("CHECKPOINT")
            command = penstock_command("copy", bench, TABLE, DEGREE, *options)
            cost = measure(bench.source, bench.target, lambda: run([command]))
            costs.setdefault(way, []).append(cost)
            _check(bench)
            tell(f"turn {turn + 1} of {repeat}, {way}: {cost.wall:.2f} s, mover {cost.mover:.2f} s")

        note(ALL, ["--mode", "truncate"])
        # The first night reads all rows, since there is no watermark yet, and is not counted.
        run([penstock_command("copy", bench, TABLE, DEGREE, *NIGHT)])
        note(NOTHING, NIGHT)
        _change(bench, turn)
        note(CHANGED, NIGHT)
        _change(bench, turn)
        note(DELETES, [*NIGHT, "--deletes", "hard"])
        _change(bench, turn)
        bench.on_source(
            "DELETE FROM nights.lineitem WHERE ctid IN"
            " (SELECT ctid FROM nights.lineitem TABLESAMPLE SYSTEM (5) LIMIT 100)"
        )
        note(GONE, [*NIGHT, "--deletes", "hard"])
    return Nights(rows, costs)


def _change(bench: Bench, turn: int) -> None:
    with psycopg.connect(bench.source_url, autocommit=True) as source:
        source.execute(
            "UPDATE nights.lineitem SET l_tax = l_tax + 1 WHERE l_orderkey %% 1000 = %s", [turn]
        )


def _check(bench: Bench) -> None:
    """Compare both sides.

    Raises:
        WrongResult: they do not hold the same rows.
    """
    query = "SELECT count(*), sum(l_tax), sum(l_orderkey) FROM nights.lineitem"
    with psycopg.connect(bench.source_url) as source, psycopg.connect(bench.target_url) as target:
        mine, theirs = (side.execute(query).fetchone() for side in (source, target))
    if mine != theirs:
        raise WrongResult(f"{TABLE}: expected {mine} in the target, found {theirs}")


class Nights:
    def __init__(self, rows: int, costs: dict[str, list[Cost]]) -> None:
        self._rows = rows
        self._costs = costs

    def _best(self, way: str) -> Cost:
        return min(self._costs[way], key=lambda cost: cost.wall)

    def show(self) -> None:
        whole = self._best(ALL).wall
        show_table(
            f"lineitem with a primary key, {self._rows:,} rows, degree {DEGREE}: best turn",
            ["load", "seconds", "of all rows", "mover CPU", "source CPU", "target CPU"],
            [
                [
                    way,
                    f"{cost.wall:.2f}",
                    f"{cost.wall / whole:.2f}",
                    f"{cost.mover:.2f}",
                    f"{cost.source:.2f}",
                    f"{cost.target:.2f}",
                ]
                for way in self._costs
                for cost in (self._best(way),)
            ],
        )

    def limits(self) -> list[Limit]:
        whole = self._best(ALL).wall
        night, found = self._best(CHANGED), self._best(DELETES)
        return [
            Limit("a night of 0.1 %, of the time of all rows", night.wall / whole, MOST_OF_ALL),
            Limit("--deletes, of the time of all rows", (found.wall - night.wall) / whole, 0.1),
        ]

    def as_json(self) -> dict[str, Any]:
        return {
            "rows": self._rows,
            "degree": DEGREE,
            "costs": {way: [asdict(cost) for cost in found] for way, found in self._costs.items()},
        }
