"""Peak memory of a worker for a small table, a larger one, and one with huge values."""

from __future__ import annotations

from typing import Any

from benchmarks.bench import Bench
from benchmarks.cost import PeakMemory, run
from benchmarks.movers import penstock_command
from benchmarks.report import Limit, show_table, tell
from benchmarks.speed import SCHEMA

MB = 1_000_000
DEGREE = 2

HUGE_BYTES = 50 * MB
HUGE_ROWS = 6
"""Rows with one value each, which compresses well in the table and is sent uncompressed."""

MOST = 100 * MB
HUGE_FACTOR = 4
"""The limit of a worker's memory for a row with a huge value, in sizes of that row."""
SAME = 0.1
"""The share by which the larger table may need more memory than the small one."""


def measure(bench: Bench, scale: float) -> Memory:
    """Copy three tables and watch the memory of workers."""
    small = f"SF{scale / 10:g}"
    large = f"SF{scale:g}"
    peaks = {}
    for name, schema, factor in ((small, "memory_small", scale / 10), (large, SCHEMA, scale)):
        tell(f"memory: loading lineitem {name}")
        rows = bench.load_tpch(schema, factor)
        peaks[name] = _peak(bench, f"{schema}.lineitem", rows)
    tell(f"memory: making {HUGE_ROWS} values of {HUGE_BYTES // MB} MB")
    bench.on_source(
        "CREATE TABLE huge AS SELECT id, repeat('penstock ', 50000000 / 9) AS value"
        " FROM generate_series(1, 6) AS id"
    )
    bench.on_target("CREATE UNLOGGED TABLE huge (id integer, value text)")
    huge = _peak(bench, "public.huge", HUGE_ROWS, "--strategy", "whole")
    return Memory(small, large, peaks, huge)


def _peak(bench: Bench, table: str, rows: int, *options: str) -> int:
    bench.reset(table)
    memory = PeakMemory()
    run([penstock_command("copy", bench, table, DEGREE, *options)], memory.look)
    bench.check(table, rows)
    return memory.bytes


class Memory:
    def __init__(self, small: str, large: str, peaks: dict[str, int], huge: int) -> None:
        self._small = small
        self._large = large
        self._peaks = peaks
        self._huge = huge

    def show(self) -> None:
        rows = [[f"lineitem {name}", f"{peak / MB:.1f}"] for name, peak in self._peaks.items()]
        rows.append([f"{HUGE_ROWS} rows of {HUGE_BYTES // MB} MB", f"{self._huge / MB:.1f}"])
        show_table("peak memory of a worker", ["table", "MB"], rows)

    def limits(self) -> list[Limit]:
        small, large = self._peaks[self._small], self._peaks[self._large]
        return [
            Limit(f"worker's peak memory, {self._large}, MB", large / MB, MOST / MB),
            Limit(f"peak memory, {self._large} / {self._small}", large / small, 1 + SAME),
            Limit(
                f"peak memory / row, values of {HUGE_BYTES // MB} MB",
                self._huge / HUGE_BYTES,
                HUGE_FACTOR,
            ),
        ]

    def as_json(self) -> dict[str, Any]:
        return {**self._peaks, "huge": self._huge}
