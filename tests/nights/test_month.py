"""Months of nights from a busy source: killed, skipped, overlapping, stopped and woken.

Some run in tasks that are cleared. In between, users move the watermark, and load, edit and alter
the target by other means.

After each successful night, the target equals the source as of that night's own snapshot. A reader
always sees the target as some night left it, and never an earlier state after a later one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.conftest import fresh_database, fresh_mysql

from penstock_testkit import AnyMysqlServer, PgBouncer, PostgresServer
from penstock_testkit.pgbouncer import pgbouncer_program

from .month import DELETES, Month
from .source import wait_for_commits
from .targets import DuckTarget, MariaTarget, PostgresTarget, Target

SEEDS = int(os.environ.get("PENSTOCK_NIGHTS", "0"))
FIRST_SEED = int(os.environ.get("PENSTOCK_NIGHTS_FROM", "0"))
NIGHTS = 8


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[PostgresServer, PostgresServer]]:
    settings = {"autovacuum": False, "max_prepared_transactions": 20}
    with (
        PostgresServer(fsync=False, settings=settings) as source,
        PostgresServer(fsync=False, settings={"autovacuum": False}) as target,
    ):
        yield source, target


@pytest.fixture(scope="module")
def poolers(servers: tuple[PostgresServer, PostgresServer]) -> Iterator[list[PgBouncer]]:
    """Yield one pooler for each server; none if pgbouncer is not installed."""
    with ExitStack() as stack:
        yield [
            stack.enter_context(PgBouncer(server, "transaction"))
            for server in servers
            if pgbouncer_program()
        ]


def seeds(count: int) -> pytest.MarkDecorator:
    """Return the seeds to run.

    Args:
        count: the number of seeds that the suite runs.
    """
    return pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + (SEEDS or count)))


def run_month(
    source: str,
    target: Target,
    seed: int,
    poolers: Sequence[PgBouncer],
    *,
    drifts: bool = False,
) -> None:
    with Month.of(source, target, seed, poolers) as month, month.at_work():
        month.drifts = drifts
        month.succeeding()
        for _ in range(NIGHTS):
            wait_for_commits(month.source, 15)
            month.chance.choice(month.kinds())()
            month.check(now=False)
        month.succeeding()
        month.source.end()
        # All writers have ended, so after the last night, the target has the rows that the source
        # has now.
        assert month.ends(month.night(), "last") == 0
        month.check()


@seeds(2)
def test_a_month_into_postgresql(
    servers: tuple[PostgresServer, PostgresServer], poolers: list[PgBouncer], seed: int
) -> None:
    with fresh_database(servers[0]) as source, fresh_database(servers[1]) as url:
        run_month(source, PostgresTarget(url, DELETES[seed % 3]), seed, poolers)


@seeds(1)
def test_a_month_into_mariadb(
    servers: tuple[PostgresServer, PostgresServer],
    poolers: list[PgBouncer],
    mysql_server: AnyMysqlServer,
    seed: int,
) -> None:
    with fresh_database(servers[0]) as source, fresh_mysql(mysql_server) as url:
        run_month(source, MariaTarget(url, DELETES[seed % 3]), seed, poolers[:1])


@seeds(1)
def test_a_month_into_duckdb(
    servers: tuple[PostgresServer, PostgresServer],
    poolers: list[PgBouncer],
    tmp_path: Path,
    seed: int,
) -> None:
    """Only one process can open the file, so the target is read between nights.

    It is read after each night, whatever its result.
    """
    with fresh_database(servers[0]) as source:
        target = DuckTarget(f"duckdb:///{tmp_path}/t.duckdb", DELETES[seed % 3])
        run_month(source, target, seed, poolers[:1])


@seeds(1)
def test_a_month_with_drift(
    servers: tuple[PostgresServer, PostgresServer],
    poolers: list[PgBouncer],
    request: pytest.FixtureRequest,
    tmp_path: Path,
    seed: int,
) -> None:
    """Columns are added, changed, renamed and dropped only in the source."""
    kind = ("postgresql", "mysql", "duckdb")[seed % 3]
    with ExitStack() as stack:
        source = stack.enter_context(fresh_database(servers[0]))
        target: Target
        deletes = DELETES[seed % 3]
        if kind == "duckdb":
            target = DuckTarget(f"duckdb:///{tmp_path}/t.duckdb", deletes)
        elif kind == "mysql":
            server = request.getfixturevalue("mysql_server")
            target = MariaTarget(stack.enter_context(fresh_mysql(server)), deletes)
        else:
            target = PostgresTarget(stack.enter_context(fresh_database(servers[1])), deletes)
        run_month(source, target, seed, poolers[:1], drifts=True)
