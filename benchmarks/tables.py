"""The cost of many small tables, and of tables on distant servers."""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psycopg

from benchmarks import row_by_row
from benchmarks.bench import Bench, WrongResult
from benchmarks.cost import Cost, measure, run
from benchmarks.report import Limit, show_table, tell
from penstock_testkit import DistantServer

SCHEMA = "many"
ROWS = 300
PENSTOCK, PIPE, PGCOPYDB = "penstock", "pg_dump, psql", "pgcopydb"
ROUND_TRIP = 0.02
DISTANT_TABLES = 10
DISTANT_ROWS = 200_000
LARGE = "distant.lineitem"
ONE, PARTITIONS, TEN = "one partition", "16 partitions, degree 4", f"{DISTANT_TABLES} tables"

Ways = dict[str, list[Cost]]


def many_tables(bench: Bench, tables: int, repeat: int) -> Tables:
    """Copy small tables with `--mode recreate`, each with a key, an index and some foreign keys.

    Args:
        bench: the source and the target.
        tables: the number of tables.
        repeat: the number of times that each way is measured.
    """
    _make(bench, tables)
    movers = _movers(bench, bench.source_url, bench.target_url)
    costs: Ways = {name: [] for name in movers}
    for turn in range(repeat):
        for name, move in movers.items():
            _empty(bench)
            cost = measure(bench.source, bench.target, move)
            _check(bench, tables)
            costs[name].append(cost)
            tell(f"turn {turn + 1} of {repeat}, {tables} tables, {name}: {cost.wall:.2f} s")
    return Tables(tables, costs)


def distant(bench: Bench, repeat: int) -> Distance:
    """Make the same copies with both servers nearby, and at a round trip of 20 ms."""
    _make(bench, DISTANT_TABLES)
    with psycopg.connect(bench.source_url, autocommit=True) as source:
        source.execute("CREATE SCHEMA IF NOT EXISTS distant")
        source.execute(f"DROP TABLE IF EXISTS {LARGE}".encode())
        source.execute(
            f"CREATE TABLE {LARGE} AS SELECT n AS id, md5(n::text) AS word, n * 1.5 AS price "
            f"FROM generate_series(1, {DISTANT_ROWS}) AS n".encode()
        )
        source.execute(f"VACUUM (ANALYZE) {LARGE}".encode())
    with psycopg.connect(bench.target_url, autocommit=True) as target:
        target.execute("CREATE SCHEMA IF NOT EXISTS distant")
        target.execute(f"CREATE TABLE IF NOT EXISTS {LARGE} (id int, word text, price numeric)")
    costs: dict[tuple[str, str], Ways] = {}
    trips: dict[str, tuple[int, int]] = {}
    for place, delay in (("at hand", 0.0), ("20 ms", ROUND_TRIP)):
        with ExitStack() as stack:
            source_end = stack.enter_context(DistantServer(bench.source_url, delay))
            target_end = stack.enter_context(DistantServer(bench.target_url, delay))
            for turn in range(repeat):
                for work, movers in _distant_movers(bench, source_end.url, target_end.url).items():
                    for name, move in movers.items():
                        _empty(bench)
                        bench.reset(LARGE)
                        source_end.reset()
                        target_end.reset()
                        cost = measure(bench.source, bench.target, move)
                        if work == TEN:
                            _check(bench, DISTANT_TABLES)
                        else:
                            bench.check(LARGE, DISTANT_ROWS)
                        costs.setdefault((work, place), {}).setdefault(name, []).append(cost)
                        if name == PENSTOCK:
                            trips[work] = source_end.round_trips, target_end.round_trips
                        tell(f"turn {turn + 1}, {work}, {place}, {name}: {cost.wall:.2f} s")
    return Distance(costs, trips)


def _make(bench: Bench, tables: int) -> None:
    with psycopg.connect(bench.source_url, autocommit=True) as source:
        source.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE".encode())
        source.execute(f"CREATE SCHEMA {SCHEMA}".encode())
        for number in range(tables):
            name = f"{SCHEMA}.t{number:05}"
            source.execute(
                f"CREATE TABLE {name} (id int PRIMARY KEY, parent int, word text NOT NULL, "
                f"made timestamptz DEFAULT now());"
                f"INSERT INTO {name} SELECT n, n, md5(n::text), now() "
                f"FROM generate_series(1, {ROWS}) AS n;"
                f"CREATE INDEX ON {name} (word)".encode()
            )
            if number % 3 == 2:
                source.execute(
                    f"ALTER TABLE {name} ADD FOREIGN KEY (parent) "
                    f"REFERENCES {SCHEMA}.t{number - 1:05} (id)".encode()
                )
        source.execute("VACUUM (ANALYZE)")


def _empty(bench: Bench) -> None:
    with psycopg.connect(bench.target_url, autocommit=True) as target:
        # A hundred tables at a time, because dropping more would exceed the number of locks.
        found = target.execute(
            "SELECT format('%%I.%%I', schemaname, tablename) FROM pg_tables WHERE schemaname = %s",
            (SCHEMA,),
        ).fetchall()
        for start in range(0, len(found), 100):
            names = ", ".join(name for (name,) in found[start : start + 100])
            target.execute(f"DROP TABLE {names} CASCADE".encode())
        target.execute(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE".encode())
        target.execute("CHECKPOINT")


def _check(bench: Bench, tables: int) -> None:
    """Check the target.

    Raises:
        WrongResult: tables, rows, indexes or foreign keys are missing.
    """
    query = (
        "SELECT (SELECT count(*) FROM pg_tables WHERE schemaname = 'many'), "
        "(SELECT count(*) FROM pg_indexes WHERE schemaname = 'many'), "
        "(SELECT count(*) FROM pg_constraint JOIN pg_class AS c ON c.oid = conrelid "
        "WHERE contype = 'f' AND relnamespace = 'many'::regnamespace), "
        f"(SELECT count(*) FROM many.t{tables - 1:05})"
    )
    with psycopg.connect(bench.target_url) as target:
        found = target.execute(query.encode()).fetchone()
    expected = (tables, 2 * tables, tables // 3, ROWS)
    if found != expected:
        raise WrongResult(f"expected tables, indexes, foreign keys, rows {expected}; found {found}")


def _movers(bench: Bench, source: str, target: str) -> dict[str, Callable[[], float]]:
    psql = [str(bench.target.psql), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", target]
    dump = [str(bench.source.bin("pg_dump")), "-n", SCHEMA, source]
    program = str(Path(sys.executable).with_name("penstock"))
    ends = ["--source", source, "--target", target]
    copy = [program, "copy-all", *ends, "--tables", f"{SCHEMA}.*", "--mode", "recreate"]
    movers: dict[str, Callable[[], float]] = {
        PENSTOCK: lambda: run([copy]),
        PIPE: lambda: run([dump, psql]),
    }
    if clone := shutil.which("pgcopydb"):
        movers[PGCOPYDB] = lambda: cloned(bench, [clone, "clone", *ends])
    return movers


def cloned(bench: Bench, command: Sequence[str]) -> float:
    """Run pgcopydb's clone, two processes each for tables and indexes; return its CPU seconds."""
    # It runs pg_dump and pg_restore, which must be as new as the servers.
    path = os.environ["PATH"]
    os.environ["PATH"] = f"{bench.source.psql.parent}{os.pathsep}{path}"
    try:
        with tempfile.TemporaryDirectory() as folder:
            jobs = ["--table-jobs", "2", "--index-jobs", "2", "--no-owner", "--no-acl"]
            return run([[*command, *jobs, "--drop-if-exists", "--dir", f"{folder}/clone"]])
    finally:
        os.environ["PATH"] = path


def _distant_movers(
    bench: Bench, source: str, target: str
) -> dict[str, dict[str, Callable[[], float]]]:
    psql = [str(bench.source.psql), "-X", "-q", "-v", "ON_ERROR_STOP=1"]
    out = row_by_row.copy_out(LARGE, "0:").as_string(None)
    into = row_by_row.copy_in(LARGE).as_string(None)
    pipe = [[*psql, "-d", source, "-c", out], [*psql, "-d", target, "-c", into]]
    program = str(Path(sys.executable).with_name("penstock"))
    copy = [program, "copy", "--source", source, "--target", target, "--table", LARGE]
    whole = [*copy, "--strategy", "whole"]
    cut = [*copy, "--partitions", "16", "--degree", "4"]
    ten = _movers(bench, source, target)
    return {
        ONE: {PENSTOCK: lambda: run([whole]), "psql pipe": lambda: run(pipe)},
        PARTITIONS: {PENSTOCK: lambda: run([cut]), "psql pipe": lambda: run(pipe)},
        TEN: {name: ten[name] for name in (PENSTOCK, PIPE)},
    }


def _best(costs: Sequence[Cost]) -> Cost:
    return min(costs, key=lambda cost: cost.wall)


class Tables:
    """The costs of many tables.

    Args:
        tables: the number of tables.
        costs: the costs of all turns, by mover.
    """

    def __init__(self, tables: int, costs: Ways) -> None:
        self._tables = tables
        self._costs = costs

    def show(self) -> None:
        base = _best(self._costs[PIPE]).wall
        lines = []
        for name, costs in self._costs.items():
            best = _best(costs)
            each = [f"{figure * 1000 / self._tables:.1f}" for figure in (best.mover, best.source)]
            lines.append(
                [
                    name,
                    f"{best.wall:.2f}",
                    f"{statistics.median(cost.wall for cost in costs):.2f}",
                    f"{best.wall / base:.2f}",
                    f"{best.mover:.2f}",
                    f"{best.source:.2f}",
                    f"{best.target:.2f}",
                    *each,
                ]
            )
        columns = ["mover", "wall", "median", f"wall / {PIPE}", "CPU mover", "CPU source"]
        show_table(
            f"{self._tables} tables of {ROWS} rows: seconds, best of {len(self._costs[PIPE])}",
            [*columns, "CPU target", "mover, ms a table", "source, ms a table"],
            lines,
        )

    def limits(self) -> list[Limit]:
        best = {name: _best(costs) for name, costs in self._costs.items()}
        mine = best[PENSTOCK]
        limits = [
            Limit(f"{self._tables} tables, wall / {PIPE}", mine.wall / best[PIPE].wall, 3.0),
            Limit("mover CPU, ms a table", mine.mover * 1000 / self._tables, 6.0),
            Limit("source CPU, ms a table", mine.source * 1000 / self._tables, 2.0),
        ]
        if PGCOPYDB in best:
            found = mine.wall / best[PGCOPYDB].wall
            limits.append(Limit(f"{self._tables} tables, wall / {PGCOPYDB}", found, 0.5))
        return limits

    def as_json(self) -> dict[str, Any]:
        costs = {name: [asdict(cost) for cost in turns] for name, turns in self._costs.items()}
        return {"tables": self._tables, "costs": costs}


class Distance:
    """The costs at a distance.

    Args:
        costs: by the copied tables and the distance, and by mover.
        trips: round trips to the source and to the target, by the copied tables.
    """

    def __init__(
        self, costs: dict[tuple[str, str], Ways], trips: dict[str, tuple[int, int]]
    ) -> None:
        self._costs = costs
        self._trips = trips

    def show(self) -> None:
        lines = []
        for (work, place), movers in self._costs.items():
            for name, costs in movers.items():
                trips = self._trips[work] if name == PENSTOCK else ("", "")
                lines.append([work, place, name, f"{_best(costs).wall:.2f}", *map(str, trips)])
        show_table(
            "distance: seconds, best of all turns",
            ["copied", "servers", "mover", "wall", "round trips, source", "target"],
            lines,
        )

    def _far(self, work: str) -> tuple[float, float]:
        mine, other = self._costs[work, "20 ms"].values()
        return _best(mine).wall, _best(other).wall

    def limits(self) -> list[Limit]:
        one, pipe = self._far(ONE)
        many, pipe_again = self._far(PARTITIONS)
        ten, dumped = self._far(TEN)
        return [
            Limit("20 ms, one partition: seconds over a psql pipe", one - pipe, 1.0),
            Limit("20 ms, 16 partitions: seconds over a psql pipe", many - pipe_again, 1.4),
            Limit(f"20 ms, {DISTANT_TABLES} tables, wall / {PIPE}", ten / dumped, 0.8),
        ]

    def as_json(self) -> dict[str, Any]:
        return {
            "round trips": {work: list(trips) for work, trips in self._trips.items()},
            "costs": [
                {"copied": work, "servers": place, "mover": name, **asdict(_best(costs))}
                for (work, place), movers in self._costs.items()
                for name, costs in movers.items()
            ],
        }
