"""MySQL or MariaDB to PostgreSQL: small tables and a large one, compared with pgloader."""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.bench import Bench, WrongResult
from benchmarks.cost import Cost, measure, run
from benchmarks.mysql import SETTINGS
from benchmarks.report import Limit, show_table, tell
from penstock_testkit import MysqlServer, connect_mysql

DATABASE = "many"
TABLES, ROWS, LARGE_ROWS = 50, 300, 1_000_000
PENSTOCK, PGLOADER = "penstock", "pgloader"
NUMBERS = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)"
COLUMNS = (
    "id int PRIMARY KEY, parent int, word varchar(40) NOT NULL, price decimal(12, 2), made datetime"
)
SELECTED = "i, i, md5(i), i / 100, now()"


def many_tables(bench: Bench, repeat: int) -> MysqlTables:
    """Copy the tables, creating them each time with two keys each."""
    with MysqlServer(settings=SETTINGS) as mysql:
        _make(mysql)
        costs = in_turns(bench, mysql, DATABASE, repeat, _check)
    what = f"{TABLES} tables of {ROWS} rows and one of {LARGE_ROWS:,}"
    return MysqlTables(costs, what, f"{TABLES + 1} tables", 0.4)


def in_turns(
    bench: Bench,
    mysql: MysqlServer,
    database: str,
    repeat: int,
    check: Callable[[Bench], None],
) -> dict[str, list[Cost]]:
    """Copy a database with each mover, creating its tables each time.

    Args:
        bench: the source and the target.
        mysql: the MySQL server.
        database: the name of the database to copy.
        repeat: the number of times that each way is measured.
        check: raises `WrongResult` if something is missing.
    """
    costs: dict[str, list[Cost]] = {}
    movers = _movers(bench, mysql, database)
    if PGLOADER not in movers:
        tell("without pgloader, which is not installed")
    names = list(movers)
    for turn in range(repeat):
        # The first mover of one turn is the last of another, so that drift affects all equally.
        first = turn % len(names)
        for name in [*names[first:], *names[:first]]:
            _empty(bench, database)
            cost = measure(mysql, bench.target, movers[name])
            check(bench)
            costs.setdefault(name, []).append(cost)
            tell(f"turn {turn + 1} of {repeat}, {name}: {cost.wall:.2f} s")
    return costs


def _make(mysql: MysqlServer) -> None:
    with closing(connect_mysql(mysql.url)) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {DATABASE}")
        for number in range(TABLES):
            table = f"{DATABASE}.t{number:03}"
            cursor.execute(f"CREATE TABLE {table} ({COLUMNS}, UNIQUE KEY word_{number} (word, id))")
            cursor.execute(
                f"INSERT INTO {table} {NUMBERS} SELECT {SELECTED} FROM n WHERE i <= {ROWS}"
            )
        cursor.execute(
            f"CREATE TABLE {DATABASE}.large ({COLUMNS}, UNIQUE KEY word_large (word, id))"
        )
        cursor.execute(
            f"INSERT INTO {DATABASE}.large {NUMBERS} SELECT {SELECTED} FROM"
            " (SELECT (a.i - 1) * 1000 + b.i AS i FROM n AS a CROSS JOIN n AS b) AS numbers"
        )
        cursor.execute(f"ANALYZE TABLE {DATABASE}.large")


def _movers(bench: Bench, mysql: MysqlServer, database: str) -> dict[str, Callable[[], float]]:
    program = str(Path(sys.executable).with_name("penstock"))
    ends = ["--source", mysql.url, "--target", bench.target_url]
    copy = [program, "copy-all", *ends, "--tables", f"{database}.*", "--mode", "recreate"]
    movers: dict[str, Callable[[], float]] = {PENSTOCK: lambda: run([copy])}
    if loader := shutil.which("pgloader"):
        movers[PGLOADER] = lambda: _loaded(bench, mysql, database, loader)
    return movers


def _loaded(bench: Bench, mysql: MysqlServer, database: str, loader: str) -> float:
    with tempfile.TemporaryDirectory() as folder:
        commands = Path(folder, "commands")
        commands.write_text(
            f"LOAD DATABASE FROM {mysql.url_for(db=database)}?useSSL=false"
            f" INTO {bench.target_url}"
            " WITH include drop, create tables, create indexes, workers = 2, concurrency = 1;\n"
        )
        return run([[loader, "--quiet", "--root-dir", f"{folder}/root", str(commands)]])


def _empty(bench: Bench, schema: str) -> None:
    with psycopg.connect(bench.target_url, autocommit=True) as target:
        target.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE".encode())
        target.execute("CHECKPOINT")


def _check(bench: Bench) -> None:
    """Check the target.

    Raises:
        WrongResult: tables, rows or indexes are missing.
    """
    query = (
        f"SELECT (SELECT count(*) FROM pg_tables WHERE schemaname = '{DATABASE}'), "
        f"(SELECT count(*) FROM pg_indexes WHERE schemaname = '{DATABASE}'), "
        f"(SELECT count(*) FROM {DATABASE}.t{TABLES - 1:03}), "
        f"(SELECT count(*) FROM {DATABASE}.large)"
    )
    with psycopg.connect(bench.target_url) as target:
        found = target.execute(query.encode()).fetchone()
    expected = (TABLES + 1, 2 * (TABLES + 1), ROWS, LARGE_ROWS)
    if found != expected:
        raise WrongResult(f"expected tables, indexes, rows {expected}; found {found}")


class MysqlTables:
    """The costs of two movers.

    Args:
        costs: the costs of all turns, by mover.
        what: a description of the tables; `briefly` is a short one.
        most: the limit for Penstock's wall time as a share of pgloader's.
    """

    def __init__(self, costs: dict[str, list[Cost]], what: str, briefly: str, most: float) -> None:
        self._costs = costs
        self._what = what
        self._briefly = briefly
        self._most = most

    def _best(self, name: str) -> Cost:
        return min(self._costs[name], key=lambda cost: cost.wall)

    def _ratio(self) -> float:
        return self._best(PENSTOCK).wall / self._best(PGLOADER).wall

    def show(self) -> None:
        lines = []
        for name, costs in self._costs.items():
            best = self._best(name)
            figures = (best.wall, statistics.median(cost.wall for cost in costs), best.mover)
            lines.append([name, *(f"{each:.2f}" for each in (*figures, best.source, best.target))])
        show_table(
            f"{self._what}, MySQL to PostgreSQL: seconds, best of {len(self._costs[PENSTOCK])}",
            ["mover", "wall", "median", "CPU mover", "CPU source", "CPU target"],
            lines,
        )

    def limits(self) -> list[Limit]:
        if PGLOADER not in self._costs:
            return []
        return [Limit(f"MySQL, {self._briefly}, wall / {PGLOADER}", self._ratio(), self._most)]

    def as_json(self) -> dict[str, Any]:
        return {name: [asdict(cost) for cost in costs] for name, costs in self._costs.items()}
