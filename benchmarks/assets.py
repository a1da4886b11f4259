"""Dagster's overhead on a copy: one run for all partitions, or one run for each."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.cost import run
from benchmarks.modes import DEGREE, Walls
from benchmarks.movers import penstock_command
from benchmarks.report import tell
from penstock_testkit.dagster import DagsterStack, Run

DEFINITIONS = Path(__file__).parent / "defs/assets.py"
SCHEMA = "assets"
TABLE = f"{SCHEMA}.lineitem"
ASSET = TABLE.replace(".", "/")
KEYS = [f"{number:03}" for number in range(16)]
ALL = (KEYS[0], KEYS[-1])
BASE = "penstock copy"
NOTHING = "one run that copies nothing"
TIMEOUT = 600


def measure(bench: Bench, scale: float, repeat: int) -> Walls:
    """Replace lineitem in 16 partitions, two at once, `repeat` times each way.

    Args:
        bench: the source and the target.
        scale: the scale factor of TPC-H; 1 is about 6 million rows of lineitem.
        repeat: the number of times that each way is measured.
    """
    tell(f"dagster: loading lineitem at scale {scale:g}, and starting Dagster")
    rows = bench.load_tpch(SCHEMA, scale)
    walls: dict[str, list[float]] = {}
    environment = {"PG_SRC": bench.source_url, "PG_DST": bench.target_url}
    with DagsterStack(DEFINITIONS, environment) as stack:
        ways: dict[str, Callable[[], None]] = {
            BASE: lambda: _copy(bench),
            NOTHING: lambda: _ended(stack.launch("nothing", partitions=ALL)),
            "one run, 16 partitions": lambda: _ended(
                stack.launch(TABLE.replace(".", "/"), partitions=ALL)
            ),
            "16 runs of one partition": lambda: _one_by_one(stack),
        }
        _ended(
            stack.launch(ASSET, partitions=KEYS[0])
        )  # the first run creates the plan, which is stored
        for turn in range(repeat):
            for way, copy in ways.items():
                bench.reset(TABLE)
                begun = time.monotonic()
                copy()
                walls.setdefault(way, []).append(time.monotonic() - begun)
                if way != NOTHING:
                    bench.check(TABLE, rows)
            tell(f"turn {turn + 1} of {repeat}: { ({way: f[-1] for way, f in walls.items()}) }")
    return Walls(
        f"lineitem replaced in 16 partitions, {rows:,} rows, two at once: wall time, best of "
        f"{repeat}",
        rows,
        {way: min(found) for way, found in walls.items()},
        BASE,
    )


def _copy(bench: Bench) -> None:
    options = ("--mode", "replace", "--key", "l_orderkey", "--partitions", "16")
    run([penstock_command("copy", bench, TABLE, DEGREE, *options)])


def _one_by_one(stack: DagsterStack) -> None:
    under_way: list[Run] = []
    for key in KEYS:
        if len(under_way) == DEGREE:
            _ended(under_way.pop(0))
        under_way.append(stack.launch(ASSET, partitions=key))
    for each in under_way:
        _ended(each)


def _ended(launched: Run) -> None:
    launched.ended("SUCCESS", timeout=TIMEOUT)
