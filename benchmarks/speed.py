"""Wall time and CPU of copying a large table: Penstock, psql pipes and psycopg's rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from benchmarks.bench import Bench
from benchmarks.cost import Cost, measure
from benchmarks.movers import MOVERS
from benchmarks.report import Limit, show_table, tell
from penstock.backends.shared.resources import cpus

SCHEMA = "speed"
PIPES, ROWS = "psql pipes", "psycopg rows"


def run(bench: Bench, scale: float, degrees: Sequence[int], repeat: int) -> Speed:
    """Copy lineitem with every mover at every degree, `repeat` times, taking turns.

    Args:
        bench: the source and the target.
        scale: the scale factor of TPC-H; 1 is about 6 million rows of lineitem.
        degrees: the numbers of concurrent streams to measure.
        repeat: the number of times that each way is measured.
    """
    tell(f"loading lineitem at scale {scale:g}")
    rows = bench.load_tpch(SCHEMA, scale)
    table = f"{SCHEMA}.lineitem"
    tell("warming up")
    for mover in MOVERS.values():
        bench.reset(table)
        mover(bench, table, degrees[-1])
    costs: dict[tuple[str, int], list[Cost]] = {}
    for turn in range(repeat):
        for degree in degrees:
            # The first mover of one turn is the last of the next, so that drift affects all
            # equally.
            names = list(MOVERS)[turn % 3 :] + list(MOVERS)[: turn % 3]
            for name in names:
                bench.reset(table)
                cost = measure(
                    bench.source, bench.target, partial(MOVERS[name], bench, table, degree)
                )
                bench.check(table, rows)
                costs.setdefault((name, degree), []).append(cost)
                tell(
                    f"turn {turn + 1} of {repeat}, degree {degree}, {name}: {cost.wall:.2f} s, "
                    f"mover {cost.mover:.2f} s of CPU"
                )
    return Speed(rows, costs)


class Speed:
    """The measured costs. The best of all turns counts, since other load only adds time."""

    def __init__(self, rows: int, costs: dict[tuple[str, int], list[Cost]]) -> None:
        self.rows = rows
        self.costs = costs
        self.degrees = sorted({degree for _, degree in costs})

    def best(self, mover: str, degree: int, what: str) -> float:
        """Return the smallest figure of all turns.

        Args:
            mover: the name of the mover.
            degree: the number of concurrent streams.
            what: a field of `Cost`, such as `wall`, in seconds.
        """
        figures: list[float] = [getattr(cost, what) for cost in self.costs[mover, degree]]
        return min(figures)

    def ratio(self, mover: str, degree: int, what: str = "wall") -> float:
        """Return the ratio of Penstock's best to another mover's.

        Args:
            mover: the name of the mover.
            degree: the number of concurrent streams.
            what: a field of `Cost`, such as `wall`, in seconds.
        """
        return self.best("penstock", degree, what) / self.best(mover, degree, what)

    def show(self) -> None:
        rows = []
        for degree in self.degrees:
            for mover in MOVERS:
                figures = [
                    self.best(mover, degree, what) for what in ("wall", "mover", "source", "target")
                ]
                walls = [cost.wall for cost in self.costs[mover, degree]]
                against = (
                    [f"{self.ratio(other, degree):.2f}" for other in (PIPES, ROWS)]
                    if mover == "penstock"
                    else ["", ""]
                )
                rows.append(
                    [
                        str(degree),
                        mover,
                        f"{figures[0]:.2f}",
                        f"{max(walls):.2f}",
                        *(f"{figure:.2f}" for figure in figures[1:]),
                        *against,
                    ]
                )
        turns = len(next(iter(self.costs.values())))
        show_table(
            f"lineitem, {self.rows:,} rows: seconds, best of {turns}",
            [
                "degree",
                "mover",
                "wall",
                "wall, worst",
                "CPU mover",
                "CPU source",
                "CPU target",
                "wall / pipes",
                "wall / rows",
            ],
            rows,
        )

    def limits(self) -> list[Limit]:
        lowest, highest = self.degrees[0], self.degrees[-1]
        wall = self.best("penstock", highest, "wall")
        # The servers' own work is the same for every mover.
        servers = sum(self.best("penstock", highest, side) for side in ("source", "target"))
        return [
            Limit(f"wall / psql pipes, degree {highest}", self.ratio(PIPES, highest), 0.95),
            Limit(f"wall / psycopg rows, degree {highest}", self.ratio(ROWS, highest), 0.8),
            Limit(
                f"wall / (CPU of both servers / CPUs), degree {highest}",
                wall * cpus() / servers,
                1.15,
            ),
            Limit(
                f"mover CPU / psql pipes, degree {lowest}", self.ratio(PIPES, lowest, "mover"), 0.6
            ),
            Limit(
                f"mover CPU / psql pipes, degree {highest}",
                self.ratio(PIPES, highest, "mover"),
                0.8,
            ),
        ]

    def as_json(self) -> dict[str, Any]:
        return {
            "rows": self.rows,
            "costs": [
                {"mover": mover, "degree": degree, "turns": [asdict(cost) for cost in costs]}
                for (mover, degree), costs in self.costs.items()
            ],
        }
