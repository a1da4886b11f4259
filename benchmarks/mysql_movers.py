"""Ways to copy a table from MySQL to PostgreSQL and back.

Each function returns its CPU seconds.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from benchmarks import cost, row_by_row
from benchmarks.bench import Bench
from benchmarks.file_movers import PROGRAM, streams
from benchmarks.movers import blocks_of
from penstock_testkit import MysqlServer

ROWS, LOADED = "lineitem", "loaded"
"""MySQL's tables: the one to read, and the one to write."""
CONNECTORX = "PENSTOCK_BENCH_CONNECTORX"
"""A Python with connectorx, pgpq, pyarrow and psycopg, if ours has no connectorx."""

Mover = Callable[[Bench, MysqlServer, str, int], float]


def penstock_out(bench: Bench, mysql: MysqlServer, table: str, degree: int) -> float:
    """Copy out of MySQL with the command line.

    Args:
        bench: the source and the target.
        mysql: the MySQL server.
        table: the table to load, with its schema.
        degree: the number of concurrent streams.
    """
    ends = ["--source", mysql.url, "--target", bench.target_url]
    tables = ["--table", ROWS, "--target-table", table]
    return cost.run([[PROGRAM, "copy", *ends, *tables, "--degree", str(degree)]])


def connectorx_pgpq(bench: Bench, mysql: MysqlServer, table: str, degree: int) -> float:
    """Copy the same partitions, with a process for each stream.

    Args:
        bench: the source and the target.
        mysql: the MySQL server.
        table: the table to load, with its schema.
        degree: the number of concurrent streams.
    """
    script = [connectorx_python(), str(Path(__file__).with_name("connectorx_out.py"))]
    script += [mysql.url, ROWS, bench.target_url, table]
    ranges = _ranges(bench, mysql, table, degree)
    return streams(degree, lambda number: [[*script, *ranges[number::degree]]])


def pipes_out(bench: Bench, mysql: MysqlServer, table: str, degree: int) -> float:
    """Copy with `mariadb | psql`, a pipe for each partition, `degree` of them at a time.

    Args:
        bench: the source and the target.
        mysql: the MySQL server.
        table: the table to load, with its schema.
        degree: the number of concurrent streams.
    """
    client = [*_client(mysql), "--quick", "--batch", "--skip-column-names", "-e"]
    schema, _, name = table.partition(".")
    into = f"COPY {schema}.{name} FROM STDIN (NULL 'NULL')"
    psql = [*_psql(bench), "-d", bench.target_url, "-c", into]

    def pipe(condition: str) -> float:
        return cost.run([[*client, f"SELECT * FROM {ROWS} WHERE {condition}"], psql])

    with ThreadPoolExecutor(degree) as pool:
        return sum(pool.map(pipe, _ranges(bench, mysql, table, degree)))


def penstock_in(bench: Bench, mysql: MysqlServer, table: str, degree: int) -> float:
    """Copy into MySQL with the command line.

    Args:
        bench: the source and the target.
        mysql: the MySQL server.
        table: the table to read, with its schema.
        degree: the number of concurrent streams.
    """
    ends = ["--source", bench.source_url, "--target", mysql.url]
    tables = ["--table", table, "--target-table", LOADED]
    return cost.run([[PROGRAM, "copy", *ends, *tables, "--degree", str(degree)]])


def pipes_in(bench: Bench, mysql: MysqlServer, table: str, degree: int) -> float:
    """Copy with `psql | mariadb`, a pipe for each partition, `degree` of them at a time.

    Args:
        bench: the source and the target.
        mysql: the MySQL server.
        table: the table to read, with its schema.
        degree: the number of concurrent streams.
    """
    client = [*_client(mysql), "--local-infile=1", "-e"]
    client.append(f"LOAD DATA LOCAL INFILE '/dev/stdin' INTO TABLE {LOADED}")

    def pipe(blocks: str) -> float:
        out = row_by_row.copy_out(table, blocks).as_string(None).replace("binary", "text")
        return cost.run([[*_psql(bench), "-d", bench.source_url, "-c", out], client])

    with ThreadPoolExecutor(degree) as pool:
        return sum(pool.map(pipe, blocks_of(bench, table, degree)))


def connectorx_python() -> str:
    """Return the Python with connectorx; empty without one."""
    return os.environ.get(CONNECTORX) or (sys.executable if find_spec("connectorx") else "")


def out_movers() -> Mapping[str, Mover]:
    movers: dict[str, Mover] = {"penstock": penstock_out, "pipes": pipes_out}
    return {**movers, "connectorx, pgpq": connectorx_pgpq} if connectorx_python() else movers


IN_MOVERS: Mapping[str, Mover] = {"penstock": penstock_in, "pipes": pipes_in}


def _psql(bench: Bench) -> list[str]:
    return [str(bench.source.psql), "-X", "-q", "-v", "ON_ERROR_STOP=1"]


def _client(mysql: MysqlServer) -> list[str]:
    program = shutil.which("mariadb") or shutil.which("mysql") or "mysql"
    url = urlsplit(mysql.url)
    return [
        *(program, "--no-defaults", f"--host={url.hostname}", f"--port={url.port}"),
        *(f"--user={url.username}", f"--password={url.password}"),
        f"--database={url.path[1:]}",
    ]


def _ranges(bench: Bench, mysql: MysqlServer, table: str, degree: int) -> list[str]:
    """Return Penstock's partitions as conditions; they are planned once for each degree."""
    key = mysql.url, degree
    if key not in bench.blocks:
        ends = ["--source", mysql.url, "--target", bench.target_url]
        tables = ["--table", ROWS, "--target-table", table]
        command = [PROGRAM, "plan", *ends, *tables, "--degree", str(degree), "--json"]
        planned = subprocess.run(command, capture_output=True, text=True, check=True)
        partitions = json.loads(planned.stdout)["partitions"]
        bench.blocks[key] = [_condition(partition["extent"]) for partition in partitions]
    return bench.blocks[key]


def _condition(extent: Mapping[str, Any]) -> str:
    column, lower, upper = extent["key"]["text"], extent["lower"], extent["upper"]
    parts: Sequence[str] = [
        *([f"{column} >= {lower['text']}"] if lower else []),
        *([f"{column} < {upper['text']}"] if upper else []),
    ]
    return " AND ".join(parts) or "TRUE"
