"""Copies within MySQL when processes and servers die: each row arrives once."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pymysql
import pytest

from penstock.backends.mysql import snapshot
from penstock.errors import TransientError
from penstock.events import Committed, Failed, Opened
from penstock.model.tables import TableRef
from penstock_testkit import AnyMysqlServer, MysqlServer
from penstock_testkit.mysql import connect_mysql
from penstock_testkit.mysql_programs import mysql_program
from penstock_testkit.servers import ServerError

from ...faults.cli import PATIENCE, Run, eventually
from .mysql_pair import TABLE, Pair, execute, fill, middle, rows


@pytest.fixture
def changing(mysql_server: AnyMysqlServer, mysql_url: str) -> Iterator[Pair]:
    """A source of the test's own."""
    execute(mysql_url, TABLE)
    with mysql_server.new_database() as url:
        fill(url)
        with closing(Pair(url, mysql_url)) as new_pair:
            yield new_pair


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The directory for temporary files of runs. A socket's path must be short."""
    with tempfile.TemporaryDirectory(prefix="p-") as folder:
        monkeypatch.setenv("TMPDIR", folder)
        yield Path(folder)


# Processes


def test_a_killed_worker(pair: Pair) -> None:
    gate = pair.gate(middle(2))
    run = pair.copy()
    gate.reached()
    worker = run.wait_for(Opened, partition_id="p0002").pid
    os.kill(worker, signal.SIGKILL)
    gate.open()
    run.ended(0)
    assert [event.pid for event in run.of(Failed)] == [worker]
    assert pair.attempts()["p0002"] == 2
    pair.check_done()


def test_a_killed_supervisor(pair: Pair) -> None:
    gate = pair.gate(middle(3))
    run = pair.copy()
    gate.reached()
    run.wait_for(Committed, count=2)
    run.kill()
    gate.open()
    refused = pair.resume()
    refused.ended(65)
    assert "is lost" in refused.errors
    resumed = pair.resume("--on-snapshot-lost", "accept")
    resumed.ended(0)
    assert not {"p0001", "p0002"} & {event.partition_id for event in resumed.of(Opened)}
    pair.check_done()


def test_a_suspended_run_wakes_after_it_was_resumed(pair: Pair) -> None:
    gate = pair.gate(middle(1))
    stopped = pair.copy("--grace", "1s", "--snapshot", "none", degree=1)
    gate.reached()
    stopped.signal_all(signal.SIGSTOP)
    gate.open()
    pair.resume("--grace", "1s").ended(0)
    attempts = pair.attempts()
    stopped.signal_all(signal.SIGCONT)
    stopped.ended(0)
    assert pair.attempts() == attempts
    pair.check_done()


def test_ctrl_c(pair: Pair, temporary: Path) -> None:
    gate = pair.gate(middle(2))
    run = pair.copy()
    gate.reached()
    run.wait_for(Committed)  # by the other stream, so that there is something to continue
    run.signal_all(signal.SIGINT)
    run.ended(130)
    gate.open()
    pair.check_no_session()
    assert not list(temporary.glob("penstock-snapshot-*"))
    refused = pair.resume()
    refused.ended(65)
    assert "this source cannot tell whether it was" in refused.errors
    pair.resume("--on-snapshot-lost", "accept").ended(0)
    pair.check_done()


# Servers


def test_a_killed_server(items: str) -> None:
    try:
        mysql_program()
    except ServerError as error:
        pytest.skip(str(error))
    with MysqlServer() as server:
        execute(server.url, TABLE)
        with closing(Pair(items, server.url)) as pair:
            gate = pair.gate(middle(2))
            run = pair.copy("--snapshot", "none")
            gate.reached()
            server.kill()
            gate.open()
            time.sleep(1)
            server.start()
            run.ended(0)
            assert {event.error["side"] for event in run.of(Failed)} == {"target"}
            pair.check_done()


# Runs on one table


def test_two_runs_append_at_once(pair: Pair) -> None:
    runs = [
        pair.copy("--where", condition, run_id=f"run{number}")
        for number, condition in enumerate(["id % 2 = 0", "id % 2 = 1"])
    ]
    for run in runs:
        run.ended(0)
    pair.check_once()
    pair.check_no_session()


def until_done(pair: Pair, runs: list[Run]) -> None:
    """Wait for the runs, and resume one that the other has blocked."""
    codes = [run.popen.wait(PATIENCE) for run in runs]
    assert set(codes) <= {0, 75}
    assert 0 in codes
    for code, run in zip(codes, runs, strict=True):
        if code:
            pair.resume(run_id=run.events[0].run_id).ended(0)
    pair.check_once()
    pair.check_no_session()


def test_two_runs_replace_with_different_partitions(pair: Pair) -> None:
    runs = [
        pair.copy("--mode", "replace", run_id=f"run{parts}", partitions=parts) for parts in (3, 5)
    ]
    until_done(pair, runs)


def test_two_runs_upsert_at_once(pair: Pair) -> None:
    database = pair.source.rpartition("/")[2]
    old = f"INSERT INTO item SELECT id, 'old', NULL, NULL FROM {database}.item WHERE id % 3 = 0"
    execute(pair.target, old)
    runs = [
        pair.copy(
            "--mode", "upsert", "--conflict-columns", "id", run_id=f"run{parts}", partitions=parts
        )
        for parts in (3, 5)
    ]
    until_done(pair, runs)


def test_upsert_into_a_table_that_the_server_considers_empty(pair: Pair) -> None:
    """It does so for some seconds after a load; rows are still found by their key."""
    execute(
        pair.target,
        "ALTER TABLE item STATS_PERSISTENT = 1, STATS_AUTO_RECALC = 0",
        "ANALYZE TABLE item",
        f"INSERT INTO item SELECT * FROM {pair.source.rpartition('/')[2]}.item",
        "FLUSH TABLES item",
    )
    pair.copy("--mode", "upsert", partitions=1).ended(0, within=15)
    pair.check_done()


def test_a_run_truncates_while_another_one_loads(pair: Pair) -> None:
    gate = pair.gate(middle(2))
    first = pair.copy(run_id="first")
    gate.reached()
    second = pair.copy("--mode", "truncate", "--snapshot", "none", run_id="second")
    second.ended(75)
    assert "first" in second.errors
    gate.open()
    first.ended(0)
    pair.check_done("first")


# The snapshot


def test_later_changes_of_the_source_are_invisible(changing: Pair) -> None:
    gate = changing.gate(middle(1))
    execute(changing.source, "CREATE TABLE before_it AS SELECT * FROM item")
    run = changing.copy("--strategy", "range", degree=3, partitions=12)
    gate.reached()
    execute(
        changing.source,
        "DELETE FROM item WHERE id % 5 = 0",
        "UPDATE item SET id = id + 100000 WHERE id % 7 = 0",
        "INSERT INTO item VALUES (-1, 'new', 1, NULL), (5000000, 'new', 1, NULL)",
    )
    gate.open()
    run.ended(0)
    execute(changing.source, "DROP TABLE item", "RENAME TABLE before_it TO item")
    changing.check_once()
    changing.check_no_session()


def test_more_workers_are_lost_than_sessions_remain(changing: Pair) -> None:
    gate = changing.gate(middle(2))
    changing.options = {"snapshot_sessions": "1"}
    run = changing.copy(degree=1)
    gate.reached()
    os.kill(run.wait_for(Opened, partition_id="p0002").pid, signal.SIGKILL)
    gate.open()
    run.ended(65)
    assert "snapshot_sessions" in run.errors


def test_a_killed_holder_is_cleaned_up_soon(pair: Pair, temporary: Path) -> None:
    gate = pair.gate(middle(1))
    # By one worker: once anything is committed, a resumed run asks what to do.
    run = pair.copy(degree=1)
    gate.reached()
    run.kill()
    gate.open()
    assert list(temporary.glob("penstock-snapshot-*"))
    pair.resume().ended(0)
    pair.check_done()
    assert not list(temporary.glob("penstock-snapshot-*"))


@pytest.mark.parametrize("grants", ["SELECT, RELOAD", "SELECT, LOCK TABLES"])
def test_a_write_that_takes_long_delays_the_snapshot(
    mysql_server: AnyMysqlServer, items: str, grants: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other sessions wait no longer than the limit."""
    monkeypatch.setattr(snapshot, "LOCK_SECONDS", 1)
    name = "reading@'%'"
    execute(items, f"CREATE USER {name} IDENTIFIED BY 'r'", f"GRANT {grants} ON *.* TO {name}")
    with closing(connect_mysql(items)) as writer, closing(connect_mysql(items)) as other:
        slow = "UPDATE item SET pad = pad WHERE id = 1 AND sleep(60) = 1"
        waiting = threading.Thread(target=fails, args=(writer, slow))
        waiting.start()
        try:
            number = writer.thread_id()
            state = f"SELECT state FROM information_schema.processlist WHERE id = {number}"
            eventually("it writes", lambda: rows(items, state) == [("User sleep",)], PATIENCE)
            url = mysql_server.url_for(db=items.rpartition("/")[2], user="reading", password="r")
            table = TableRef(items.rpartition("/")[2], "item")
            begun = time.monotonic()
            with pytest.raises(
                TransientError, match="another session has been writing, or reading"
            ):
                snapshot.HeldSessions(url, [table])
            other.cursor().execute("UPDATE digit SET d = d")
            assert time.monotonic() - begun < 5
        finally:
            execute(items, f"KILL {number}", "DROP USER reading@'%'")
            waiting.join()


def test_a_closed_snapshot_leaves_no_session(items: str) -> None:
    """A session that stays keeps the locks of its transaction."""
    database = items.rpartition("/")[2]
    others = (
        f"SELECT id FROM information_schema.processlist WHERE db = '{database}'"
        " AND id <> connection_id()"
    )
    assert rows(items, others) == []
    sessions = snapshot.HeldSessions(items, [TableRef(database, "item")])
    assert rows(items, others) != []
    sessions.close()
    eventually("all sessions have ended", lambda: rows(items, others) == [], PATIENCE)


def fails(connection: Any, statement: str) -> None:
    with suppress(pymysql.Error):
        connection.cursor().execute(statement)


def test_a_suspended_worker_of_a_user_with_few_privileges(
    mysql_server: AnyMysqlServer, pair: Pair
) -> None:
    """Without PROCESS a user cannot see how many rows a transaction has changed."""
    database = pair.target.rpartition("/")[2]
    execute(
        pair.target,
        "CREATE USER loading@'%' IDENTIFIED BY 'l'",
        f"GRANT ALL ON {database}.* TO loading@'%'",
        "GRANT ALL ON penstock.* TO loading@'%'",
    )
    pair.target = mysql_server.url_for(db=database, user="loading", password="l")
    try:
        gate = pair.gate(middle(1))
        stopped = pair.copy("--grace", "1s", "--snapshot", "none", degree=1)
        gate.reached()
        stopped.signal_all(signal.SIGSTOP)
        gate.open()
        pair.resume("--grace", "1s").ended(0)
        stopped.signal_all(signal.SIGCONT)
        stopped.ended(0)
        pair.check_once()
    finally:
        execute(mysql_server.url, "DROP USER loading@'%'")
