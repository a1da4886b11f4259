"""Ways to copy a table from PostgreSQL to ClickHouse. Each returns its CPU seconds."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping

from benchmarks import clickhouse_in, cost
from benchmarks.bench import Bench
from benchmarks.file_movers import PROGRAM, streams
from benchmarks.movers import blocks_of

Mover = Callable[[Bench, str, str, str, int], float]


def penstock(bench: Bench, table: str, url: str, loaded: str, degree: int) -> float:
    """Copy with the command line; return the CPU seconds of its processes.

    Args:
        bench: the source and the target.
        table: the source's table, with its schema.
        url: the URL of ClickHouse.
        loaded: the table to load, with its database.
        degree: the number of concurrent streams.
    """
    ends = ["--source", bench.source_url, "--target", url]
    tables = ["--table", table, "--target-table", loaded]
    return cost.run([[PROGRAM, "copy", *ends, *tables, "--degree", str(degree)]])


def adbc(bench: Bench, table: str, url: str, loaded: str, degree: int) -> float:
    """Copy the same partitions, with a process for each stream.

    Args:
        bench: the source and the target.
        table: the source's table, with its schema.
        url: the URL of ClickHouse.
        loaded: the table to load, with its database.
        degree: the number of concurrent streams.
    """
    script = [sys.executable, str(clickhouse_in.__file__), bench.source_url, table, url, loaded]
    blocks = blocks_of(bench, table, degree)
    return streams(degree, lambda number: [[*script, *blocks[number::degree]]])


MOVERS: Mapping[str, Mover] = {"penstock": penstock, "ADBC, clickhouse-connect": adbc}
