"""Movers that take turns at several degrees; the best of all turns counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from typing import Any

from benchmarks.cost import Cost
from benchmarks.report import show_table, tell

PENSTOCK = "penstock"

Costs = dict[tuple[str, int], list[Cost]]
"""Costs by mover and degree."""


def take_turns(
    movers: Iterable[str], degrees: Sequence[int], repeat: int, move: Callable[[str, int], Cost]
) -> Costs:
    """Measure all movers at all degrees, after one round to warm up.

    Args:
        movers: the names of the movers.
        degrees: the numbers of concurrent streams to measure.
        repeat: the number of turns.
        move: copies with a mover at a degree, and returns the cost.
    """
    costs: Costs = {}
    names = list(movers)
    tell("warming up")
    for name in names:
        move(name, degrees[-1])
    for turn in range(repeat):
        for degree in degrees:
            # The first mover of one turn is the last of another, so that drift affects all equally.
            first = turn % len(names)
            for name in [*names[first:], *names[:first]]:
                found = move(name, degree)
                costs.setdefault((name, degree), []).append(found)
                tell(
                    f"turn {turn + 1} of {repeat}, degree {degree}, {name}: {found.wall:.2f} s, "
                    f"mover {found.mover:.2f} s of CPU"
                )
    return costs


def best(costs: Costs, mover: str, degree: int, what: str) -> float:
    """Return the smallest figure of all turns.

    Args:
        costs: the costs of all movers.
        mover: the name of the mover.
        degree: the number of concurrent streams.
        what: a field of `Cost`, such as `wall`, in seconds.
    """
    figures: list[float] = [getattr(cost, what) for cost in costs[mover, degree]]
    return min(figures)


def ratio(costs: Costs, mover: str, degree: int, what: str = "wall") -> float:
    """Return the ratio of Penstock's best to another mover's.

    Args:
        costs: the costs of all movers.
        mover: the name of the mover.
        degree: the number of concurrent streams.
        what: a field of `Cost`, such as `wall`, in seconds.
    """
    return best(costs, PENSTOCK, degree, what) / best(costs, mover, degree, what)


def ratio_of_all(costs: Costs, mover: str, degree: int) -> float:
    """Return the ratio of Penstock's CPU time to another mover's, including both servers'.

    Args:
        costs: the costs of all movers.
        mover: the name of the mover.
        degree: the number of concurrent streams.
    """
    ours, theirs = (
        min(cost.mover + cost.source + cost.target for cost in costs[name, degree])
        for name in (PENSTOCK, mover)
    )
    return ours / theirs


def show(title: str, rows: int, costs: Costs, movers: Sequence[str]) -> None:
    """Print a table of the best figures.

    Args:
        title: the beginning of the title.
        rows: the number of rows of a copy.
        costs: the costs of all movers.
        movers: the other movers, which Penstock is compared with.
    """
    turns = len(next(iter(costs.values())))
    lines = []
    for mover, degree in sorted(costs, key=lambda item: item[1]):
        figures = [best(costs, mover, degree, what) for what in ("mover", "source", "target")]
        wall = best(costs, mover, degree, "wall")
        ratios = [f"{ratio(costs, other, degree):.2f}" for other in movers]
        lines.append(
            [
                str(degree),
                mover,
                f"{wall:.2f}",
                f"{rows / wall:,.0f}",
                *(f"{figure:.2f}" for figure in figures),
                *(ratios if mover == PENSTOCK else [""] * len(movers)),
            ]
        )
    columns = ["degree", "mover", "wall", "rows/s", "CPU mover", "CPU source", "CPU target"]
    show_table(
        f"{title}, {rows:,} rows: seconds, best of {turns}",
        [*columns, *(f"wall / {other}" for other in movers)],
        lines,
    )


def as_json(costs: Costs) -> list[dict[str, Any]]:
    return [
        {"mover": mover, "degree": degree, "turns": [asdict(cost) for cost in turns]}
        for (mover, degree), turns in costs.items()
    ]
