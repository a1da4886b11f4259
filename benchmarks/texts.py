"""CSV and JSON lines into PostgreSQL and back: Penstock and psql's ``\\copy``."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import cost
from benchmarks.bench import Bench, WrongResult
from benchmarks.cost import Cost, measure
from benchmarks.report import Limit, tell
from benchmarks.turns import PENSTOCK, Costs, as_json, best, ratio, show, take_turns
from penstock_testkit import tpch

PROGRAM = str(Path(sys.executable).with_name("penstock"))
SCHEMA = "texts"
TABLE = f"{SCHEMA}.lineitem"
COPY, JSON = "\\copy", "penstock, JSON lines"


def run(bench: Bench, scale: float, repeat: int) -> Texts:
    """Load and unload lineitem as one file, in one stream.

    Args:
        bench: the source and the target.
        scale: the scale factor of TPC-H; 1 is about 6 million rows of lineitem.
        repeat: the number of times that each way is measured.
    """
    tell(f"texts: loading lineitem at scale {scale:g}")
    rows = bench.load_tpch(SCHEMA, scale)
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        comma, lines = Path(folder, "in.csv"), Path(folder, "in.jsonl")
        with tpch.csv_files(["lineitem"], scale) as files:
            shutil.copyfile(files["lineitem"], comma)
        cost.run([_penstock_out(bench, lines)])
        loads: Mapping[str, Sequence[str]] = {
            PENSTOCK: _penstock_in(bench, comma),
            COPY: _psql(bench, bench.target_url, f"\\copy {TABLE} FROM '{comma}' CSV HEADER"),
            JSON: _penstock_in(bench, lines),
        }

        def load(name: str, degree: int) -> Cost:
            bench.reset(TABLE)
            found = _cost(bench, loads[name])
            bench.check(TABLE, rows)
            return found

        into = take_turns(loads, [1], repeat, load)
        written = Path(folder, "out.csv")
        unloads: Mapping[str, Sequence[str]] = {
            PENSTOCK: _penstock_out(bench, written),
            COPY: _psql(bench, bench.source_url, f"\\copy {TABLE} TO '{written}' CSV HEADER"),
        }

        def unload(name: str, degree: int) -> Cost:
            written.unlink(missing_ok=True)
            found = _cost(bench, unloads[name])
            with written.open("rb") as file:
                count = sum(1 for _ in file) - 1  # no value of the table has a line break
            if count != rows:
                raise WrongResult(f"{name}: expected {rows:,} rows in the file, found {count:,}")
            return found

        out = take_turns(unloads, [1], repeat, unload)
    return Texts(rows, into, out)


def _cost(bench: Bench, command: Sequence[str]) -> Cost:
    return measure(bench.source, bench.target, lambda: cost.run([command]))


def _penstock_in(bench: Bench, file: Path) -> list[str]:
    target = ("--target", bench.target_url, "--target-table", TABLE)
    return [PROGRAM, "copy", "--source", str(file), *target]


def _penstock_out(bench: Bench, file: Path) -> list[str]:
    source = ("--source", bench.source_url, "--table", TABLE)
    return [PROGRAM, "copy", *source, "--target", str(file), "--partitions", "1"]


def _psql(bench: Bench, url: str, command: str) -> list[str]:
    return [str(bench.target.psql), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", url, "-c", command]


class Texts:
    def __init__(self, rows: int, into: Costs, out: Costs) -> None:
        self._rows = rows
        self._into = into
        self._out = out

    def show(self) -> None:
        show("lineitem, a CSV file to PostgreSQL", self._rows, self._into, [COPY, JSON])
        show("lineitem, PostgreSQL to a CSV file", self._rows, self._out, [COPY])

    def limits(self) -> list[Limit]:
        lines = best(self._into, JSON, 1, "mover") / self._rows * 1e6
        return [
            Limit("CSV in: wall / \\copy", ratio(self._into, COPY, 1), 1.3),
            Limit("CSV in: CPU of all / \\copy", _all(self._into, "target"), 2.0),
            Limit("CSV out: wall / \\copy", ratio(self._out, COPY, 1), 1.3),
            Limit("CSV out: CPU of all / \\copy", _all(self._out, "source"), 2.0),
            Limit("JSON lines in: mover CPU for a million rows, seconds", lines, 4.0),
        ]

    def as_json(self) -> dict[str, Any]:
        return {"rows": self._rows, "in": as_json(self._into), "out": as_json(self._out)}


def _all(costs: Costs, server: str) -> float:
    """Return the ratio of the CPU of mover and server to that of psql and server."""
    ours, theirs = (
        min(each.mover + getattr(each, server) for each in costs[name, 1])
        for name in (PENSTOCK, COPY)
    )
    return float(ours / theirs)
