"""The cost of loading a partitioned table, by mode, and of freezing its rows afterwards."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, LiteralString

import psycopg
from psycopg import sql

from benchmarks.bench import Bench
from benchmarks.cost import Cost, measure, run, server_cpu
from benchmarks.movers import penstock_command
from benchmarks.report import Limit, show_table, tell

SCHEMA = "partitioned"
TABLE = f"{SCHEMA}.years"
DEGREE = 4
# The years of l_shipdate.
YEARS = range(1992, 1999)
CUT = ["--strategy", "time", "--key", "l_shipdate", "--interval", "1 year"]
NO_INDEXES, INDEXES = "no index", "a primary key and two indexes"
KEYS: Sequence[LiteralString] = (
    "ALTER TABLE partitioned.years ADD PRIMARY KEY (l_shipdate, l_orderkey, l_linenumber)",
    "CREATE INDEX ON partitioned.years (l_shipdate)",
    "CREATE INDEX ON partitioned.years (l_partkey, l_suppkey)",
)
# Whether the target's table has its child tables before the load.
WAYS: Mapping[str, Mapping[str, tuple[bool, Sequence[str]]]] = {
    NO_INDEXES: {
        "append": (True, ["--mode", "append", *CUT]),
        "recreate": (True, ["--mode", "recreate", "--partitioning"]),
        "attach": (False, ["--mode", "attach", *CUT]),
    },
    INDEXES: {
        "append": (True, ["--mode", "append", *CUT]),
        "append, indexes deferred": (
            True,
            ["--mode", "append", "--indexes", "defer", *CUT],
        ),
        "recreate": (True, ["--mode", "recreate", "--partitioning"]),
        "attach": (False, ["--mode", "attach", *CUT]),
    },
}


@dataclass(frozen=True)
class Load:
    """The cost of one load, in seconds."""

    copy: Cost
    freeze: float
    """The target's CPU for VACUUM (FREEZE) afterwards."""


def measure_all(bench: Bench, scale: float, repeat: int) -> Partitioned:
    """Load lineitem by years in each way, `repeat` times.

    Args:
        bench: the source and the target.
        scale: the scale factor of TPC-H; 1 is about 6 million rows of lineitem.
        repeat: the number of times that each way is measured.
    """
    tell(f"partitioned: loading lineitem at scale {scale:g} by years")
    rows = bench.load_tpch(SCHEMA, scale)
    found: dict[str, dict[str, list[Load]]] = {}
    for indexes, ways in WAYS.items():
        keys = KEYS if indexes == INDEXES else ()
        with psycopg.connect(bench.source_url, autocommit=True) as source:
            _make(source, children=True, keys=keys)
            source.execute(f"INSERT INTO {TABLE} SELECT * FROM {SCHEMA}.lineitem".encode())
            source.execute(f"CREATE INDEX IF NOT EXISTS by_day ON {TABLE} (l_shipdate)".encode())
            source.execute(f"VACUUM (ANALYZE) {TABLE}".encode())
        for turn in range(repeat):
            for way, (children, options) in ways.items():
                with psycopg.connect(bench.target_url, autocommit=True) as target:
                    _make(target, children=children, keys=keys)
                load = _load(bench, rows, options)
                found.setdefault(indexes, {}).setdefault(way, []).append(load)
                tell(f"turn {turn + 1} of {repeat}, {indexes}, {way}: {load.copy.wall:.2f} s")
    return Partitioned(rows, repeat, found)


def _make(
    connection: psycopg.Connection[Any], *, children: bool, keys: Sequence[LiteralString]
) -> None:
    connection.execute(f"DROP TABLE IF EXISTS {TABLE}".encode())
    like = f"CREATE TABLE {TABLE} (LIKE {SCHEMA}.lineitem) PARTITION BY RANGE (l_shipdate)"
    connection.execute(like.encode())
    for year in YEARS if children else ():
        connection.execute(
            f"CREATE TABLE {TABLE}_{year} PARTITION OF {TABLE} "
            f"FOR VALUES FROM ('{year}-01-01') TO ('{year + 1}-01-01')".encode()
        )
    for key in keys:
        connection.execute(sql.SQL(key))


def _load(bench: Bench, rows: int, options: Sequence[str]) -> Load:
    bench.on_source("CHECKPOINT")
    bench.on_target("CHECKPOINT")
    copied = measure(
        bench.source,
        bench.target,
        lambda: run([penstock_command("copy", bench, TABLE, DEGREE, *options)]),
    )
    bench.check(TABLE, rows)
    before = server_cpu(bench.target)
    bench.on_target("VACUUM (FREEZE) partitioned.years")
    time.sleep(0.1)  # wait for the session to end, so that its CPU counts
    return Load(copied, server_cpu(bench.target) - before)


class Partitioned:
    """The costs of all loads.

    Args:
        loads: the loads of all turns, by the table's indexes and by way.
    """

    def __init__(self, rows: int, repeat: int, loads: dict[str, dict[str, list[Load]]]) -> None:
        self._rows = rows
        self._repeat = repeat
        self._best = {
            indexes: {
                way: min(turns, key=lambda load: load.copy.wall) for way, turns in ways.items()
            }
            for indexes, ways in loads.items()
        }

    def show(self) -> None:
        for indexes, ways in self._best.items():
            base = next(iter(ways.values())).copy.wall
            show_table(
                f"lineitem by years, {indexes}, {self._rows:,} rows, degree {DEGREE}: "
                f"best of {self._repeat}",
                ["way", "seconds", "over append", "CPU target", "CPU to freeze after"],
                [
                    [
                        way,
                        f"{load.copy.wall:.1f}",
                        f"{load.copy.wall / base:.2f}",
                        f"{load.copy.target:.1f}",
                        f"{load.freeze:.2f}",
                    ]
                    for way, load in ways.items()
                ],
            )

    def limits(self) -> list[Limit]:
        return []

    def as_json(self) -> dict[str, Any]:
        return {
            "rows": self._rows,
            "degree": DEGREE,
            "loads": {
                indexes: {way: dataclasses.asdict(load) for way, load in ways.items()}
                for indexes, ways in self._best.items()
            },
        }
