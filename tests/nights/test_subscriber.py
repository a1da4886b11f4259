"""Nights from a table that logical replication fills; its rows have versions like any others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from tests.conftest import fresh_database
from tests.faults.cli import PATIENCE, eventually
from tests.faults.pair import ask, connect, execute

from penstock_testkit import PostgresServer, Server
from penstock_testkit.servers import Setting

from .month import Month
from .source import COLUMNS, wait_for_commits
from .targets import PostgresTarget

ROWS = "SELECT id, email, n, md5(big) FROM items ORDER BY id"


@pytest.fixture
def ends() -> Iterator[tuple[str, str]]:
    """Return the URLs of a publisher and its subscriber."""
    settings: dict[str, Setting] = {
        "autovacuum": False,
        "wal_level": "logical",
        "max_replication_slots": 4,
        "max_prepared_transactions": 20,
        # Large transactions are applied as they arrive, in subtransactions.
        "logical_decoding_work_mem": "64kB",
    }
    with (
        PostgresServer(fsync=False, settings=settings) as publisher,
        PostgresServer(fsync=False, settings=settings) as subscriber,
    ):
        yield publisher.url, subscriber.url


def follow(publisher: str, subscriber: str) -> None:
    execute(publisher, "CREATE PUBLICATION changes FOR TABLE items")
    execute(
        subscriber,
        f"CREATE TABLE items {COLUMNS}",
        "ALTER TABLE items ADD PRIMARY KEY (id)",
        f"CREATE SUBSCRIPTION changes CONNECTION '{publisher}' PUBLICATION changes"
        " WITH (streaming = on)",
    )


def catch_up(publisher: str, subscriber: str) -> None:
    at = ask(publisher, "SELECT pg_current_wal_insert_lsn()::text")
    reached = f"SELECT bool_and(confirmed_flush_lsn >= '{at}') FROM pg_replication_slots"
    eventually("the subscriber catches up", lambda: ask(publisher, reached), PATIENCE)


def test_a_month_from_a_subscriber(ends: tuple[str, str], target_server: Server) -> None:
    publisher, subscriber = ends
    seed = 0
    with fresh_database(target_server) as url:
        target = PostgresTarget(url, "hard")
        with Month.of(publisher, target, seed, read_at=subscriber) as month:
            follow(publisher, subscriber)
            with month.at_work():
                month.succeeding()
                for kind in (month.killed, month.stopped, month.twice_at_once, month.succeeding):
                    wait_for_commits(month.source, 30)
                    kind()
                    month.check(now=False)
                month.source.end()
                catch_up(publisher, subscriber)
                month.done("last")
        with (
            closing(connect(publisher)) as source_connection,
            closing(connect(url)) as target_connection,
        ):
            assert (
                target_connection.execute(ROWS).fetchall()
                == source_connection.execute(ROWS).fetchall()
            )
