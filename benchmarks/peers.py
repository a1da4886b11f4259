"""One large table copied with common tools, each as in its manual."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import psycopg

from benchmarks import cost
from benchmarks.bench import Bench
from benchmarks.cost import CommandFailed, Cost, measure
from benchmarks.losses import peers_python, sling_in
from benchmarks.report import Limit, show_table, tell
from benchmarks.tables import cloned

SCHEMA = "peers"
TABLE = f"{SCHEMA}.lineitem"
Load = Callable[[], float]
"""A load; it returns its CPU seconds."""


class Peers:
    """The costs by mover. The best of all turns counts."""

    def __init__(self, rows: int, costs: dict[str, list[Cost]]) -> None:
        self._rows = rows
        self._costs = costs

    def show(self) -> None:
        show_table(
            f"lineitem, {self._rows:,} rows, 16 columns, into a new table: seconds",
            ["mover", "wall", "CPU mover", "CPU source", "CPU target"],
            [
                [
                    mover,
                    *(
                        f"{min(getattr(each, what) for each in costs):.1f}"
                        for what in ("wall", "mover", "source", "target")
                    ),
                ]
                for mover, costs in self._costs.items()
            ],
        )

    def limits(self) -> list[Limit]:
        return []

    def as_json(self) -> dict[str, Any]:
        return {
            "rows": self._rows,
            "costs": {
                name: [asdict(each) for each in costs] for name, costs in self._costs.items()
            },
        }


def run(bench: Bench, scale: float, repeat: int) -> Peers:
    """Copy lineitem with every available mover, `repeat` times, into an empty schema.

    Args:
        bench: the source and the target.
        scale: the scale factor of TPC-H; 1 is about 6 million rows of lineitem.
        repeat: the number of times that each way is measured.
    """
    tell(f"loading lineitem at scale {scale:g}")
    rows = bench.load_tpch(SCHEMA, scale)
    costs: dict[str, list[Cost]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(repeat):
            for name, load in _movers(bench, Path(folder)).items():
                _empty(bench)
                try:
                    found = measure(bench.source, bench.target, load)
                except CommandFailed as error:
                    tell(f"{name}: left out: {error}")
                    continue
                _check(bench, name, rows)
                costs.setdefault(name, []).append(found)
                tell(f"turn {turn + 1} of {repeat}, {name}: {found.wall:.2f} s")
    return Peers(rows, costs)


def _empty(bench: Bench) -> None:
    bench.on_target("DROP SCHEMA IF EXISTS peers CASCADE")
    bench.on_target("CREATE SCHEMA peers")
    bench.on_source("CHECKPOINT")
    bench.on_target("CHECKPOINT")


def _check(bench: Bench, name: str, rows: int) -> None:
    with psycopg.connect(bench.target_url) as connection:
        found = connection.execute(f"SELECT count(*) FROM {TABLE}".encode()).fetchone()
    if found is None or found[0] != rows:
        tell(f"{name}: expected {rows:,} rows in the target, found {found}")
        raise SystemExit(1)


def _movers(bench: Bench, folder: Path) -> dict[str, Load]:
    source, target = bench.source_url, bench.target_url
    copy = [
        *(str(Path(sys.executable).with_name("penstock")), "copy"),
        *("--source", source, "--target", target, "--table", TABLE),
        *("--mode", "recreate", "--degree", "2"),
    ]
    movers: dict[str, Load] = {"penstock": partial(cost.run, [copy])}
    if clone := shutil.which("pgcopydb"):
        only = folder / "filters.ini"
        only.write_text(f"[include-only-table]\n{TABLE}\n", encoding="utf-8")
        command = ["--filters", str(only), "--source", source, "--target", target]
        # In a session of its own, because on failure it ends its whole process group.
        movers["pgcopydb"] = partial(cloned, bench, ["setsid", "--wait", clone, "clone", *command])
    python = peers_python(folder)
    if python is None:
        tell("peers: left out: sling and dlt, which could not be installed")
        return movers
    streams = [
        *(sling_in(folder), "run", "--src-conn", f"{source}?sslmode=disable"),
        *("--src-stream", TABLE, "--tgt-conn", f"{target}?sslmode=disable"),
        *("--tgt-object", TABLE, "--mode", "full-refresh"),
    ]
    script = str(Path(__file__).with_name("dlt_copy.py"))
    load = ["env", f"DLT_DATA_DIR={folder}", str(python), script, source, target, SCHEMA, TABLE]
    return {
        **movers,
        "sling": partial(cost.run, [streams]),
        "dlt, pyarrow and CSV": partial(cost.run, [load]),
    }
