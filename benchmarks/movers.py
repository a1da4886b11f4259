"""Three ways to copy a table in the same partitions. Each returns its CPU seconds."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks import cost, row_by_row
from benchmarks.bench import Bench

Mover = Callable[[Bench, str, int], float]


def penstock(bench: Bench, table: str, degree: int, *options: str) -> float:
    """Copy with the command line as a user would, including planning and reporting.

    Args:
        bench: the source and the target.
        table: the name of the table, with its schema.
        degree: the number of concurrent streams.
    """
    return cost.run([penstock_command("copy", bench, table, degree, *options)])


def psql_pipes(bench: Bench, table: str, degree: int) -> float:
    """Copy with `psql | psql`, a pipe for each partition, `degree` of them at a time.

    Args:
        bench: the source and the target.
        table: the name of the table, with its schema.
        degree: the number of concurrent streams.
    """
    psql = [str(bench.source.psql), "-X", "-q", "-v", "ON_ERROR_STOP=1"]
    into = row_by_row.copy_in(table).as_string(None)

    def pipe(blocks: str) -> float:
        out = row_by_row.copy_out(table, blocks).as_string(None)
        return cost.run(
            [
                [*psql, "-d", bench.source_url, "-c", out],
                [*psql, "-d", bench.target_url, "-c", into],
            ]
        )

    with ThreadPoolExecutor(degree) as pool:
        return sum(pool.map(pipe, blocks_of(bench, table, degree)))


def psycopg_rows(bench: Bench, table: str, degree: int) -> float:
    """Copy with psycopg's `for row in out: into.write(row)`, a process for each stream.

    Args:
        bench: the source and the target.
        table: the name of the table, with its schema.
        degree: the number of concurrent streams.
    """
    blocks = blocks_of(bench, table, degree)
    script = [sys.executable, str(row_by_row.__file__), bench.source_url, bench.target_url, table]

    def stream(number: int) -> float:
        return cost.run([[*script, *blocks[number::degree]]])

    with ThreadPoolExecutor(degree) as pool:
        return sum(pool.map(stream, range(degree)))


MOVERS: dict[str, Mover] = {
    "penstock": penstock,
    "psql pipes": psql_pipes,
    "psycopg rows": psycopg_rows,
}


def penstock_command(
    verb: str, bench: Bench, table: str, degree: int, *options: str
) -> Sequence[str]:
    """Return the words of a command of Penstock.

    Args:
        verb: the command, such as `copy`.
        bench: the source and the target.
        table: the name of the table, with its schema.
        degree: the number of concurrent streams.
    """
    program = str(Path(sys.executable).with_name("penstock"))
    ends = ["--source", bench.source_url, "--target", bench.target_url]
    return [program, verb, *ends, "--table", table, "--degree", str(degree), *options]


def blocks_of(bench: Bench, table: str, degree: int) -> list[str]:
    """Return Penstock's partitions as LOWER:UPPER; they are planned once for each degree.

    Args:
        bench: the source and the target.
        table: the name of the table, with its schema.
        degree: the number of concurrent streams.
    """
    key = table, degree
    if key not in bench.blocks:
        command = penstock_command("plan", bench, table, degree, "--strategy", "ctid", "--json")
        planned = subprocess.run(command, capture_output=True, text=True, check=True)
        extents = [partition["extent"] for partition in json.loads(planned.stdout)["partitions"]]
        bench.blocks[key] = [
            f"{extent['lower']}:{'' if extent['upper'] is None else extent['upper']}"
            for extent in extents
        ]
    return bench.blocks[key]
