"""Airflow's overhead on a copy: mapped tasks, fewer of them, one task."""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmarks.bench import Bench
from benchmarks.cost import run
from benchmarks.modes import DEGREE, Walls
from benchmarks.movers import penstock_command
from benchmarks.report import tell
from penstock_testkit.airflow import AirflowStack

DAGS = Path(__file__).parent / "dags/flows.py"
SCHEMA = "flows"
TABLE = f"{SCHEMA}.lineitem"
BASE = "penstock copy"
NOTHING = "16 mapped tasks that do nothing"
WAYS = {
    NOTHING: "flow_nothing",
    "copy_table, 16 mapped tasks": "flow_mapped",
    "copy_table, 2 mapped tasks of 8 partitions": "flow_packed",
    "CopyTableOperator, one task": "flow_one_task",
}


def measure(bench: Bench, scale: float, repeat: int) -> Walls:
    """Copy lineitem in 16 partitions, two at once, `repeat` times each way, with LocalExecutor.

    Args:
        bench: the source and the target.
        scale: the scale factor of TPC-H; 1 is about 6 million rows of lineitem.
        repeat: the number of times that each way is measured.
    """
    tell(f"airflow: loading lineitem at scale {scale:g}, and starting Airflow")
    rows = bench.load_tpch(SCHEMA, scale)
    walls: dict[str, list[float]] = {}
    with AirflowStack() as stack:
        stack.set_connection("pg_src", bench.source_url)
        stack.set_connection("pg_dst", bench.target_url)
        first, *others = WAYS.values()
        stack.add_dag(DAGS, first)
        for dag_id in others:
            stack.unpause(dag_id)
        for turn in range(repeat):
            bench.reset(TABLE)
            begun = time.monotonic()
            options = ("--mode", "truncate", "--partitions", "16")
            run([penstock_command("copy", bench, TABLE, DEGREE, *options)])
            walls.setdefault(BASE, []).append(time.monotonic() - begun)
            for way, dag_id in WAYS.items():
                bench.reset(TABLE)
                done = stack.trigger(dag_id)
                done.succeeded(timeout=600)
                if way != NOTHING:
                    bench.check(TABLE, rows)
                walls.setdefault(way, []).append(_seconds(done.rest.get(done.path)))
            tell(f"turn {turn + 1} of {repeat}: { ({way: f[-1] for way, f in walls.items()}) }")
    return Walls(
        f"lineitem in 16 partitions, {rows:,} rows, two at once: wall time, best of {repeat}",
        rows,
        {way: min(found) for way, found in walls.items()},
        BASE,
    )


def _seconds(raw: dict[str, Any]) -> float:
    """Return the seconds from the start of a DAG run to its end, by Airflow's clock."""
    begun, ended = (datetime.fromisoformat(raw[name]) for name in ("start_date", "end_date"))
    return (ended - begun).total_seconds()
