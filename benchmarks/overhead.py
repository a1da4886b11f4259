"""The cost of a partition apart from its rows."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from benchmarks.bench import Bench
from benchmarks.cost import run
from benchmarks.movers import penstock_command
from benchmarks.report import Limit, show_table, tell

PARTITIONS = 1_000
ROWS = 50_000
DEGREES = (1, 4)
MOST_MS = 15.0


def measure(bench: Bench, repeat: int) -> Overhead:
    """Copy a small table whole and in a thousand partitions, at each degree."""
    # A few more than a thousand blocks, so that each partition has at least one.
    tell("overhead: making a small table")
    bench.on_source(
        "CREATE TABLE small AS SELECT id, repeat(md5(id::text), 6) AS filler"
        " FROM generate_series(1, 50000) AS id"
    )
    bench.on_source("VACUUM (ANALYZE) small")
    bench.on_target("CREATE UNLOGGED TABLE small (id integer, filler text)")
    walls: dict[tuple[int, str], list[float]] = {}
    for turn in range(repeat):
        for degree in DEGREES:
            for kind, options in (
                ("whole", ["--strategy", "whole"]),
                ("parts", ["--strategy", "ctid", "--partitions", str(PARTITIONS)]),
            ):
                bench.reset("public.small")
                begun = time.monotonic()
                run([penstock_command("copy", bench, "public.small", degree, *options)])
                wall = time.monotonic() - begun
                bench.check("public.small", ROWS)
                walls.setdefault((degree, kind), []).append(wall)
                tell(f"turn {turn + 1} of {repeat}, degree {degree}, {kind}: {wall:.2f} s")
    return Overhead({key: min(values) for key, values in walls.items()}, DEGREES)


class Overhead:
    def __init__(self, walls: dict[tuple[int, str], float], degrees: Sequence[int]) -> None:
        self._walls = walls
        self._degrees = degrees

    def _each(self, degree: int) -> float:
        """Return the milliseconds for each partition."""
        return (self._walls[degree, "parts"] - self._walls[degree, "whole"]) / PARTITIONS * 1000

    def show(self) -> None:
        show_table(
            f"{ROWS:,} rows, whole and in {PARTITIONS:,} partitions: wall time, best",
            ["degree", "whole, s", "partitions, s", "each, ms"],
            [
                [
                    str(degree),
                    f"{self._walls[degree, 'whole']:.2f}",
                    f"{self._walls[degree, 'parts']:.2f}",
                    f"{self._each(degree):.2f}",
                ]
                for degree in self._degrees
            ],
        )

    def limits(self) -> list[Limit]:
        return [
            Limit(f"overhead of a partition, degree {degree}, ms", self._each(degree), MOST_MS)
            for degree in self._degrees
        ]

    def as_json(self) -> dict[str, Any]:
        return {f"{kind} at degree {degree}": wall for (degree, kind), wall in self._walls.items()}
