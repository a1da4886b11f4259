"""SQL Server to PostgreSQL and back: Penstock and mssql-pg-migrate, both tables at once."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from typing import Any

import psycopg

from benchmarks.bench import Bench, WrongResult
from benchmarks.cost import Cost, measure
from benchmarks.mssql_movers import BACK, MIGRATE, SCHEMA, Ends, movers
from benchmarks.report import Limit, tell
from benchmarks.turns import PENSTOCK, Costs, as_json, best, ratio, show, take_turns
from penstock_testkit import connect_mssql, new_mssql_database

SERVER = "PENSTOCK_BENCH_MSSQL"
"""The URL of a server, with a user who may create databases."""
# As in the Stack Overflow database, for which mssql-pg-migrate publishes figures.
_ROWS = {"votes": 2_000_000, "posts": 300_000}
_SELECTED = {
    "votes": """
        SELECT n::int AS id, (n::bigint * 7919 % 3729195)::int AS post_id,
            CASE WHEN n % 11 = 0 THEN (n % 299398)::int END AS user_id,
            CASE WHEN n % 977 = 0 THEN 50 END AS bounty_amount, (n % 15 + 1)::int AS vote_type_id,
            timestamp '2008-07-31' + n * interval '31 seconds' AS creation_date
        FROM generate_series(1, {rows}) AS n
    """,
    "posts": """
        SELECT n::int AS id, nullif(n % 5000, 0)::int AS accepted_answer_id,
            (n % 4)::int AS answer_count,
            repeat('<p>Body ' || md5(n::text) || ' ünïcode</p> ', 5 + (n % 37)::int) AS body,
            timestamp '2008-07-31' + n * interval '7 minutes' AS creation_date,
            timestamp '2010-01-01' + n * interval '11 minutes' AS last_activity_date,
            CASE WHEN n % 3 > 0 THEN 'editor ' || n % 97 END AS last_editor_display_name,
            (n % 299398)::int AS owner_user_id, (n % 8 + 1)::int AS post_type_id,
            (n % 211 - 20)::int AS score, '<c#><' || md5((n % 61)::text) || '>' AS tags,
            'Title of ' || n || ' ' || md5((n * 3)::text) AS title, (n % 90000)::int AS view_count
        FROM generate_series(1, {rows}) AS n
    """,
}


def server_url() -> str:
    return os.environ.get(SERVER, "")


def run(bench: Bench, scale: float, degrees: Sequence[int], repeat: int) -> Mssql:
    """Copy both tables with each mover, out of SQL Server and into it.

    Args:
        bench: the source and the target.
        scale: a factor for the numbers of rows.
        degrees: the numbers of concurrent streams to measure.
        repeat: the number of times that each way is measured.
    """
    rows = {name: int(count * scale) for name, count in _ROWS.items()}
    found = movers()
    if len(found) == 1:
        tell(f"without mssql-pg-migrate: {MIGRATE} names no program")
    tell(f"mssql: making {sum(rows.values()):,} rows")
    with psycopg.connect(bench.source_url, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {SCHEMA}".encode())
        for name, count in rows.items():
            select = _SELECTED[name].format(rows=count)
            connection.execute(f"CREATE TABLE {SCHEMA}.{name} AS {select}".encode())
            connection.execute(f"ALTER TABLE {SCHEMA}.{name} ADD PRIMARY KEY (id)".encode())
        connection.execute(b"VACUUM ANALYZE")
    with (
        new_mssql_database(server_url()) as filled,
        psycopg.connect(bench.target_url, autocommit=True) as target,
    ):
        target.execute(f"CREATE SCHEMA {SCHEMA}".encode())
        ends = Ends(bench.source_url, filled, back=True)
        tell("mssql: filling SQL Server")
        found[PENSTOCK](ends, degrees[-1])
        version = _prepare(filled)
        out = take_turns(found, degrees, repeat, partial(_move_out, bench, filled, rows))
        into = take_turns(found, degrees, repeat, partial(_move_in, bench, rows))
    return Mssql(version, sum(rows.values()), out, into)


def _prepare(url: str) -> str:
    """Create and fill the tables.

    Returns: the server's version.
    """
    with closing(connect_mssql(url)) as connection, connection.cursor() as cursor:
        cursor.execute("EXEC sp_updatestats")
        cursor.execute("SELECT @@VERSION")
        return str(cursor.fetchone()[0]).partition("\n")[0]


def _move_out(bench: Bench, url: str, rows: dict[str, int], name: str, degree: int) -> Cost:
    bench.on_target("CHECKPOINT")
    ends = Ends(url, bench.target_url, back=False)
    found = measure(None, bench.target, lambda: movers()[name](ends, degree))
    for table, count in rows.items():
        try:
            bench.check(f"{SCHEMA}.{table}", count)
        except WrongResult as error:
            if name == PENSTOCK:
                raise
            tell(f"{name}: {error}")
    return found


def _move_in(bench: Bench, rows: dict[str, int], name: str, degree: int) -> Cost:
    with _empty_database() as url:
        ends = Ends(bench.source_url, url, back=True)
        found = measure(bench.source, None, lambda: movers()[name](ends, degree))
        with closing(connect_mssql(url)) as connection, connection.cursor() as cursor:
            for table, count in rows.items():
                cursor.execute(f"SELECT count(*) FROM {BACK}.{table}")
                (arrived,) = cursor.fetchone()
                if arrived != count:
                    discrepancy = f"{name}: {table}: expected {count:,} rows, found {arrived:,}"
                    if name == PENSTOCK:
                        raise WrongResult(discrepancy)
                    tell(discrepancy)
    return found


@contextmanager
def _empty_database() -> Iterator[str]:
    with new_mssql_database(server_url()) as url:
        yield url


class Mssql:
    def __init__(self, version: str, rows: int, out: Costs, into: Costs) -> None:
        self._version = version
        self._rows = rows
        self._out = out
        self._into = into

    def _others(self) -> list[str]:
        return sorted({name for name, _ in self._out} - {PENSTOCK})

    def show(self) -> None:
        show(
            f"votes and posts, {self._version} to PostgreSQL", self._rows, self._out, self._others()
        )
        show(
            f"votes and posts, PostgreSQL to {self._version}",
            self._rows,
            self._into,
            self._others(),
        )

    def limits(self) -> list[Limit]:
        found = []
        degree = max(degree for _, degree in self._into)
        for other in self._others():
            for way, costs in (("out", self._out), ("in", self._into)):
                name = f"SQL Server {way}: {{}} / {other}, degree {degree}"
                mine, theirs = (best(costs, who, degree, "mover") for who in (PENSTOCK, other))
                found.append(Limit(name.format("wall"), ratio(costs, other, degree), 1 / 1.5))
                found.append(Limit(name.format("CPU mover"), mine / theirs, 0.5))
        return found

    def as_json(self) -> dict[str, Any]:
        return {
            "version": self._version,
            "rows": self._rows,
            "out": as_json(self._out),
            "in": as_json(self._into),
        }
