"""Another user's ALTER TABLE waits for the snapshot's sessions, and the run never waits for it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pymysql
import pytest

from penstock.backends.mysql import snapshot
from penstock.backends.mysql.snapshot import HeldSessions
from penstock.errors import Blocked
from penstock.events import Prepared
from penstock.model.tables import TableRef
from penstock_testkit import AnyMysqlServer
from penstock_testkit.mysql import connect_mysql

from ...faults.cli import PATIENCE, eventually
from .mysql_pair import TABLE, Pair, execute, fill, middle, rows

pytestmark = pytest.mark.both_servers

ALTER = "ALTER TABLE item ALTER COLUMN pad SET DEFAULT 'hidden'"
WAITING = "SELECT id FROM information_schema.processlist WHERE state LIKE 'Waiting for table meta%'"


@pytest.fixture
def changing(mysql_server: AnyMysqlServer, mysql_url: str) -> Iterator[Pair]:
    """A source of the test's own."""
    execute(mysql_url, TABLE)
    with mysql_server.new_database() as url:
        fill(url)
        with closing(Pair(url, mysql_url)) as new_pair:
            yield new_pair


@contextmanager
def altering(url: str) -> Iterator[threading.Thread]:
    """Run an ALTER TABLE that waits for a reader of the table."""
    connection = connect_mysql(url)

    def alter() -> None:
        with contextlib.suppress(pymysql.Error), connection.cursor() as cursor:
            cursor.execute("SET lock_wait_timeout = 120")
            cursor.execute(ALTER)

    thread = threading.Thread(target=alter, daemon=True)
    thread.start()
    try:
        eventually("it waits", lambda: bool(rows(url, WAITING)), PATIENCE)
        yield thread
    finally:
        if thread.is_alive():
            execute(url, f"KILL QUERY {connection.thread_id()}")
        thread.join(PATIENCE)
        connection.close()


def test_workers_and_verification_do_not_queue_behind_it(changing: Pair) -> None:
    gate = changing.gate(middle(1))
    run = changing.copy("--verify", "counts", degree=1)
    run.wait_for(Prepared)
    gate.reached()
    with altering(changing.source) as waiting:
        gate.open()
        run.ended(0)
        waiting.join(PATIENCE)
        assert not waiting.is_alive()


def test_the_blocking_session_is_named(changing: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot, "LOCK_SECONDS", 1)
    monkeypatch.setattr(snapshot, "_lock", lambda *_: None)
    table = TableRef(changing.source.rpartition("/")[2].partition("?")[0], "item")
    with closing(connect_mysql(changing.source)) as reader, reader.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("SELECT 1 FROM item LIMIT 1")
        with altering(changing.source), pytest.raises(Blocked, match="ALTER TABLE, waiting for"):
            HeldSessions(changing.source, [table])
