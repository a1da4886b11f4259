"""Ways to load Parquet files into a table, and to write a table to them.

Each function returns its CPU seconds.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks import adbc_in, adbc_out, cost, duckdb_out, row_by_row
from benchmarks.bench import Bench
from benchmarks.movers import blocks_of

PROGRAM = str(Path(sys.executable).with_name("penstock"))

Loader = Callable[[Bench, str, Sequence[Path], int], float]
Unloader = Callable[[Bench, str, Path, int], float]


def penstock_in(bench: Bench, table: str, files: Sequence[Path], degree: int) -> float:
    """Load with one partition for each file.

    Args:
        bench: the source and the target.
        table: the table to load, with its schema.
        files: the files, all in one folder.
        degree: the number of concurrent streams.
    """
    return cost.run(
        [
            [
                *(PROGRAM, "copy", "--source", f"{files[0].parent}/", "--strategy", "files"),
                *("--target", bench.target_url, "--target-table", table),
                *("--partitions", str(len(files)), "--degree", str(degree)),
            ]
        ]
    )


def adbc_ingest(bench: Bench, table: str, files: Sequence[Path], degree: int) -> float:
    """Load with ADBC, a process for each stream.

    Args:
        bench: the source and the target.
        table: the table to load, with its schema.
        files: the files, one for each partition.
        degree: the number of concurrent streams.
    """
    script = [sys.executable, str(adbc_in.__file__), bench.target_url, table]
    return streams(degree, lambda number: [[*script, *map(str, files[number::degree])]])


def duckdb_csv(bench: Bench, table: str, files: Sequence[Path], degree: int) -> float:
    """Load DuckDB's CSV through psql.

    Args:
        bench: the source and the target.
        table: the table to load, with its schema.
        files: the files, one for each partition.
        degree: the number of concurrent streams.
    """
    into = row_by_row.copy_in(table).as_string(None).replace("binary", "csv")
    psql = [str(bench.target.psql), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", bench.target_url]
    script = [sys.executable, str(duckdb_out.__file__)]
    return streams(
        degree,
        lambda number: [[*script, *map(str, files[number::degree])], [*psql, "-c", into]],
    )


def penstock_out(bench: Bench, table: str, folder: Path, degree: int) -> float:
    """Unload into Parquet files with the command line.

    Args:
        bench: the source and the target.
        table: the name of the table, with its schema.
        folder: the folder for the files.
        degree: the number of concurrent streams.
    """
    return cost.run(
        [
            [
                *(PROGRAM, "copy", "--source", bench.source_url, "--table", table),
                *("--target", f"{folder}/", "--degree", str(degree)),
            ]
        ]
    )


def adbc_pyarrow(bench: Bench, table: str, folder: Path, degree: int) -> float:
    """Unload the same partitions, one file each.

    Args:
        bench: the source and the target.
        table: the name of the table, with its schema.
        folder: the folder for the files.
        degree: the number of concurrent streams.
    """
    script = [sys.executable, str(adbc_out.__file__), bench.source_url, table, str(folder)]
    blocks = blocks_of(bench, table, degree)
    return streams(degree, lambda number: [[*script, *blocks[number::degree]]])


def streams(degree: int, commands: Callable[[int], Sequence[Sequence[str]]]) -> float:
    """Run several pipelines at the same time."""
    with ThreadPoolExecutor(degree) as pool:
        return sum(pool.map(lambda number: cost.run(commands(number)), range(degree)))


LOADERS: Mapping[str, Loader] = {
    "penstock": penstock_in,
    "ADBC ingest": adbc_ingest,
    "DuckDB CSV, psql": duckdb_csv,
}
UNLOADERS: Mapping[str, Unloader] = {
    "penstock": penstock_out,
    "ADBC, pyarrow": adbc_pyarrow,
}
