"""PostgreSQL to a DuckDB file: Penstock, and DuckDB's own postgres extension."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import duckdb

from benchmarks import cost
from benchmarks.bench import Bench, WrongResult
from benchmarks.cost import Cost, measure
from benchmarks.file_movers import PROGRAM
from benchmarks.losses import peers_python
from benchmarks.report import Limit, tell
from benchmarks.turns import PENSTOCK, Costs, as_json, ratio, ratio_of_all, show, take_turns

SCHEMA = "duckdb"
TABLE = f"{SCHEMA}.lineitem"
EXTENSION = "extension"
# No package of the registry has the extension for a later version of DuckDB.
NEEDS = ("duckdb==1.5.5", "duckdb-extension-postgres-scanner==1.5.5")


def run(bench: Bench, scale: float, degrees: Sequence[int], repeat: int) -> DuckdbLoad:
    """Copy lineitem into a new file with every mover.

    Args:
        bench: the source; the target is a file.
        scale: the scale factor of TPC-H; 1 is about 6 million rows of lineitem.
        degrees: the numbers of streams, for the extension of threads.
        repeat: the number of times that each way is measured.
    """
    tell(f"duckdb: loading lineitem at scale {scale:g}")
    rows = bench.load_tpch(SCHEMA, scale)
    bench.on_source("VACUUM (ANALYZE) duckdb.lineitem")
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as name:
        folder = Path(name)
        file = folder / "copy.duckdb"
        move = partial(_move, bench, file, rows, _movers(bench, folder, file))
        costs = take_turns(_movers(bench, folder, file), degrees, repeat, move)
    return DuckdbLoad(rows, costs)


def _movers(bench: Bench, folder: Path, file: Path) -> Mapping[str, Sequence[str]]:
    """Return the command of each mover, to which the degree is added."""
    ends = ("--source", bench.source_url, "--target", f"duckdb:///{file}")
    movers = {
        PENSTOCK: [PROGRAM, "copy", *ends, "--table", TABLE, "--mode", "recreate", "--degree"]
    }
    python = peers_python(folder, NEEDS)
    if python is None:
        tell("duckdb: left out: DuckDB's postgres extension, which could not be installed")
        return movers
    script = str(Path(__file__).with_name("duckdb_extension.py"))
    return {**movers, EXTENSION: [str(python), script, bench.source_url, TABLE, str(file)]}


def _move(
    bench: Bench,
    file: Path,
    rows: int,
    movers: Mapping[str, Sequence[str]],
    name: str,
    degree: int,
) -> Cost:
    file.unlink(missing_ok=True)
    found = measure(bench.source, None, lambda: cost.run([[*movers[name], str(degree)]]))
    with duckdb.connect(str(file), read_only=True) as connection:
        counted = connection.execute(f"SELECT count(*) FROM {TABLE}").fetchall()
    if counted != [(rows,)]:
        raise WrongResult(f"{name}: expected {rows:,} rows in the file, found {counted}")
    return found


class DuckdbLoad:
    def __init__(self, rows: int, costs: Costs) -> None:
        self._rows = rows
        self._costs = costs

    def show(self) -> None:
        others = [EXTENSION] if self._has_extension() else []
        show("lineitem, PostgreSQL to DuckDB", self._rows, self._costs, others)

    def _has_extension(self) -> bool:
        return any(name == EXTENSION for name, _ in self._costs)

    def limits(self) -> list[Limit]:
        if not self._has_extension():
            return []
        degree = max(degree for _, degree in self._costs)
        wall = ratio(self._costs, EXTENSION, degree)
        used = ratio_of_all(self._costs, EXTENSION, degree)
        return [
            Limit(f"DuckDB in: wall / its extension, degree {degree}", wall, 1.0),
            Limit(f"DuckDB in: CPU of all / its extension, degree {degree}", used, 1.0),
        ]

    def as_json(self) -> dict[str, Any]:
        return {"rows": self._rows, "costs": as_json(self._costs)}
