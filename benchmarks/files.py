"""Parquet to PostgreSQL and back: Penstock, ADBC and DuckDB, and the cost of a bucket."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from benchmarks import cost
from benchmarks.bench import Bench, WrongResult
from benchmarks.cost import Cost, measure
from benchmarks.file_movers import LOADERS, PROGRAM, UNLOADERS
from benchmarks.report import Limit, show_table, tell
from benchmarks.turns import Costs, as_json, ratio, show, take_turns
from penstock_testkit import S3Gateway, S3Server, tpch

SCHEMA = "files"
TABLE = f"{SCHEMA}.lineitem"
# ADBC's ingest converts no types, so the target's columns have those of the files.
LOADED = f"{SCHEMA}.loaded"
MAKE_LOADED = """
    CREATE UNLOGGED TABLE files.loaded (
        l_orderkey bigint, l_partkey bigint, l_suppkey bigint, l_linenumber integer,
        l_quantity numeric(15,2), l_extendedprice numeric(15,2), l_discount numeric(15,2),
        l_tax numeric(15,2), l_returnflag text, l_linestatus text, l_shipdate date,
        l_commitdate date, l_receiptdate date, l_shipinstruct text, l_shipmode text, l_comment text
    )
"""
PARTS = 8
ORDERS = f"{SCHEMA}.orders"
ORDERS_PARTS = 16
INGEST, PYARROW = "ADBC ingest", "ADBC, pyarrow"

TARGETS: Mapping[str, str] = {
    "primary key, logged": "PRIMARY KEY (o_orderkey)",
    "no key, logged": "",
    "no key, unlogged": "UNLOGGED",
}


def run(bench: Bench, scale: float, degrees: Sequence[int], repeat: int) -> Files:
    """Load and unload lineitem with every mover, and load orders from a bucket.

    Args:
        bench: the source and the target.
        scale: the scale factor of TPC-H; 1 is about 6 million rows of lineitem.
        degrees: the numbers of concurrent streams to measure.
        repeat: the number of times that each way is measured.
    """
    tell(f"files: loading lineitem at scale {scale:g}")
    rows = bench.load_tpch(SCHEMA, scale)
    bench.on_target(MAKE_LOADED)
    with tpch.parquet_files("lineitem", scale, PARTS) as files:
        loads = take_turns(LOADERS, degrees, repeat, lambda n, d: _load(bench, files, rows, n, d))
    unloads = take_turns(UNLOADERS, degrees, repeat, lambda n, d: _unload(bench, rows, n, d))
    gateway, bucket = _from_bucket(bench, scale, degrees, repeat)
    return Files(rows, loads, unloads, gateway, bucket)


def _load(bench: Bench, files: Sequence[Path], rows: int, name: str, degree: int) -> Cost:
    bench.reset(LOADED)
    found = measure(bench.source, bench.target, lambda: LOADERS[name](bench, LOADED, files, degree))
    bench.check(LOADED, rows)
    return found


def _unload(bench: Bench, rows: int, name: str, degree: int) -> Cost:
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        found = measure(
            bench.source,
            bench.target,
            lambda: UNLOADERS[name](bench, TABLE, Path(folder), degree),
        )
        row_count = sum(pq.read_metadata(path).num_rows for path in Path(folder).glob("*.parquet"))
        if row_count != rows:
            raise WrongResult(f"{name}: expected {rows:,} rows in the files, found {row_count:,}")
    return found


@contextmanager
def _bucket() -> Iterator[S3Server]:
    """Yield a bucket, if possible of a real gateway, which costs much less than moto's server."""
    with S3Server() if S3Gateway.missing() else S3Gateway() as server:
        yield server


def _from_bucket(
    bench: Bench, scale: float, degrees: Sequence[int], repeat: int
) -> tuple[str, dict[tuple[str, int], float]]:
    """Return seconds by kind of target and degree, the best of all turns."""
    walls: dict[tuple[str, int], float] = {}
    with tpch.parquet_files("orders", scale, ORDERS_PARTS) as files, _bucket() as s3:
        s3.create_bucket("lake")
        for file in files:
            s3.put("lake", f"orders/{file.name}", file)
        rows = sum(pq.read_metadata(file).num_rows for file in files)
        for kind, how in TARGETS.items():
            for degree in degrees:
                for _ in range(repeat):
                    _make_orders(bench, how)
                    begun = time.monotonic()
                    cost.run(
                        [
                            [
                                *(PROGRAM, "copy", "--source", s3.url("lake/orders/*.parquet")),
                                *("--target", bench.target_url, "--target-table", ORDERS),
                                *("--strategy", "files", "--partitions", str(ORDERS_PARTS)),
                                *("--degree", str(degree)),
                            ]
                        ]
                    )
                    wall = time.monotonic() - begun
                    bench.check(ORDERS, rows)
                    walls[kind, degree] = min(wall, walls.get((kind, degree), wall))
                tell(f"bucket, {kind}, degree {degree}: {walls[kind, degree]:.2f} s")
        return s3.name, walls


def _make_orders(bench: Bench, how: str) -> None:
    bench.on_target("DROP TABLE IF EXISTS files.orders")
    tpch.create(
        bench.target_url,
        ["orders"],
        schema=SCHEMA,
        unlogged=how == "UNLOGGED",
        primary_keys=how.startswith("PRIMARY"),
    )
    bench.on_target("CHECKPOINT")


class Files:
    def __init__(
        self,
        rows: int,
        loads: Costs,
        unloads: Costs,
        gateway: str,
        bucket: dict[tuple[str, int], float],
    ) -> None:
        self._rows = rows
        self._loads = loads
        self._unloads = unloads
        self._gateway = gateway
        self._bucket = bucket

    def show(self) -> None:
        show(f"lineitem, {PARTS} Parquet files to PostgreSQL", self._rows, self._loads, [INGEST])
        show("lineitem, PostgreSQL to Parquet", self._rows, self._unloads, [PYARROW])
        degrees = sorted({degree for _, degree in self._bucket})
        show_table(
            f"orders, {ORDERS_PARTS} Parquet files in a bucket ({self._gateway}) to PostgreSQL: "
            "seconds",
            ["target", *(f"degree {degree}" for degree in degrees)],
            [
                [kind, *(f"{self._bucket[kind, degree]:.2f}" for degree in degrees)]
                for kind in TARGETS
            ],
        )

    def limits(self) -> list[Limit]:
        degrees = sorted({degree for _, degree in self._loads})
        loads = [ratio(self._loads, INGEST, degree, "mover") for degree in degrees]
        unloads = [ratio(self._unloads, PYARROW, degree, "mover") for degree in degrees]
        return [
            Limit(
                f"Parquet in: wall / ADBC ingest, degree {degrees[-1]}",
                ratio(self._loads, INGEST, degrees[-1]),
                0.65,
            ),
            Limit("Parquet in: mover CPU / ADBC ingest, worst degree", max(loads), 0.4),
            *(
                Limit(
                    f"Parquet out: wall / ADBC and pyarrow, degree {degree}",
                    ratio(self._unloads, PYARROW, degree),
                    0.7,
                )
                for degree in degrees
            ),
            Limit("Parquet out: mover CPU / ADBC and pyarrow, worst degree", max(unloads), 0.5),
        ]

    def as_json(self) -> dict[str, Any]:
        return {
            "rows": self._rows,
            "in": as_json(self._loads),
            "out": as_json(self._unloads),
            "bucket": {
                "server": self._gateway,
                "seconds": [
                    {"target": kind, "degree": degree, "seconds": wall}
                    for (kind, degree), wall in self._bucket.items()
                ],
            },
        }
