"""PostgreSQL to ClickHouse, and batches in memory: Penstock and clickhouse-connect's insert."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from typing import Any

import pyarrow.parquet as pq

from benchmarks.bench import Bench, WrongResult
from benchmarks.clickhouse_movers import MOVERS
from benchmarks.clickhouse_write import WRITERS
from benchmarks.cost import Cost, measure
from benchmarks.report import Limit, tell
from benchmarks.turns import Costs, as_json, ratio, show, take_turns
from penstock.model.tables import TableRef
from penstock_testkit import (
    any_clickhouse_server,
    connect_clickhouse,
    new_clickhouse_database,
    tpch,
)

SCHEMA = "clickhouse"
TABLE = f"{SCHEMA}.lineitem"
ADBC, INSERT = "ADBC, clickhouse-connect", "insert_arrow"
# The size that Penstock's readers use.
BATCH_ROWS = 16_384
COLUMNS = """
    l_orderkey Int64, l_partkey Int64, l_suppkey Int64, l_linenumber Int32,
    l_quantity Decimal(15, 2), l_extendedprice Decimal(15, 2), l_discount Decimal(15, 2),
    l_tax Decimal(15, 2), l_returnflag String, l_linestatus String, l_shipdate Date32,
    l_commitdate Date32, l_receiptdate Date32, l_shipinstruct String, l_shipmode String,
    l_comment String
"""


def run(bench: Bench, scale: float, degrees: Sequence[int], repeat: int) -> ClickHouse:
    """Copy lineitem with every mover, then write batches of it.

    Args:
        bench: the source and the target.
        scale: the scale factor of TPC-H; 1 is about 6 million rows of lineitem.
        degrees: the numbers of concurrent streams to measure.
        repeat: the number of times that each way is measured.
    """
    tell(f"clickhouse: loading lineitem at scale {scale:g}")
    rows = bench.load_tpch(SCHEMA, scale)
    with tpch.parquet_files("lineitem", scale, 1) as (file,):
        batches = [*pq.ParquetFile(file).iter_batches(BATCH_ROWS)]
    with any_clickhouse_server() as server, new_clickhouse_database(server) as url:
        loaded = TableRef(url.rpartition("/")[2], "lineitem")

        def copy(name: str, degree: int) -> Cost:
            _make(url, loaded)
            mover = MOVERS[name]
            found = measure(
                bench.source, None, lambda: mover(bench, TABLE, url, f"{loaded}", degree)
            )
            _check(url, loaded, rows, name)
            return found

        def write(name: str, _: int) -> Cost:
            _make(url, loaded)
            begun = time.monotonic()
            cpu = WRITERS[name](url, loaded, batches)
            found = Cost(time.monotonic() - begun, cpu, 0.0, 0.0)
            _check(url, loaded, rows, name)
            return found

        copies = take_turns(MOVERS, degrees, repeat, copy)
        writes = take_turns(WRITERS, [1], repeat, write)
        with closing(connect_clickhouse(url)) as client:
            client.command("DROP DATABASE IF EXISTS penstock")
            version = f"ClickHouse {client.server_version}"
    return ClickHouse(version, rows, copies, writes)


def _make(url: str, table: TableRef) -> None:
    with closing(connect_clickhouse(url)) as client:
        client.command(f"DROP TABLE IF EXISTS {table} SYNC")
        client.command(f"CREATE TABLE {table} ({COLUMNS}) ENGINE = MergeTree ORDER BY ()")


def _check(url: str, table: TableRef, rows: int, name: str) -> None:
    with closing(connect_clickhouse(url)) as client:
        arrived = client.query(f"SELECT count() FROM {table}").result_rows[0][0]
    if arrived != rows:
        raise WrongResult(f"{name}: expected {rows:,} rows in the target, found {arrived:,}")


class ClickHouse:
    def __init__(self, version: str, rows: int, copies: Costs, writes: Costs) -> None:
        self._version = version
        self._rows = rows
        self._copies = copies
        self._writes = writes

    def show(self) -> None:
        show(f"lineitem, PostgreSQL to {self._version}", self._rows, self._copies, [ADBC])
        show(f"lineitem, batches in memory to {self._version}", self._rows, self._writes, [INSERT])

    def limits(self) -> list[Limit]:
        degrees = sorted({degree for _, degree in self._copies})
        copies = [ratio(self._copies, ADBC, degree, "mover") for degree in degrees]
        return [
            Limit(f"ClickHouse in: mover CPU / {ADBC}, worst degree", max(copies), 1.0),
            Limit(
                f"ClickHouse in: CPU / {INSERT} of the same batches",
                ratio(self._writes, INSERT, 1, "mover"),
                1.0,
            ),
        ]

    def as_json(self) -> dict[str, Any]:
        return {
            "version": self._version,
            "rows": self._rows,
            "copies": as_json(self._copies),
            "writes": as_json(self._writes),
        }
