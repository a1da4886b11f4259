"""Obstacles between a run and its rows: lost connections, row locks, proxies, other machines."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock import CopySpec
from penstock.backends.mysql.connection import connect
from penstock.backends.mysql.dialect import BY_BYTES
from penstock.backends.mysql.records import MySqlRecords
from penstock.backends.mysql.session import MySqlSession
from penstock.events import Committed, Failed, Opened, SnapshotChanged
from penstock_testkit.mysql import connect_mysql

from ...faults.cli import PATIENCE, Run, eventually
from ...faults.gate import cut_this_connection
from .mysql_pair import PARTITIONS, RUN_ID, Pair, execute, middle, rows

UPSERT = ("--mode", "upsert", "--conflict-columns", "id", "--snapshot", "none")
WAITING = "SELECT 1 FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'"


@pytest.fixture
def other_session(pair: Pair) -> Iterator[Any]:
    """Another user's transaction in the target, which has the same rows as the source."""
    database = pair.source.rpartition("/")[2]
    execute(pair.target, f"INSERT INTO item SELECT * FROM {database}.item")
    with (
        closing(connect_mysql(pair.target, autocommit=False)) as connection,
        connection.cursor() as cursor,
    ):
        # It locks the rows it changed, and none that it only read.
        cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        cursor.execute("UPDATE item SET note = 'old'")
        connection.commit()
        yield cursor


# Connections


def retried(run: Run) -> list[str]:
    """Return the partitions that failed with a transient error, and were copied by the next
    attempt."""
    failed = run.of(Failed)
    assert all(event.error["transient"] for event in failed)
    assert len(run.of(Opened)) == PARTITIONS + len(failed)
    return [event.partition_id for event in failed]


def test_a_lost_connection_to_the_target(pair: Pair) -> None:
    pair.before_target().on_bytes(middle(3), "to_server", cut_this_connection)
    run = pair.copy()
    run.ended(0)
    assert retried(run) == ["p0003"]
    pair.check_once()


def test_a_lost_connection_to_the_source(pair: Pair) -> None:
    pair.gate(middle(2)).open()
    assert pair.proxy is not None
    pair.proxy.on_bytes(middle(3), "to_client", cut_this_connection)
    run = pair.copy()
    run.ended(0)
    assert retried(run) == ["p0003"]
    pair.check_done()


def test_all_connections_to_the_target_are_lost(pair: Pair) -> None:
    proxy = pair.before_target()
    proxy.on_bytes(middle(3), "to_server", proxy.cut)
    run = pair.copy()
    run.ended(0)
    assert "p0003" in retried(run)
    pair.check_once()


# Locks


def test_rows_locked_for_a_long_time(pair: Pair, other_session: Any) -> None:
    other_session.execute("SELECT * FROM item WHERE id = 5000 FOR UPDATE")
    run = pair.copy(*UPSERT, "--stall-timeout", "2s", "--attempts", "20")
    failed = run.wait_for(Failed)
    assert failed.error["transient"]
    other_session.connection.commit()
    run.ended(0)
    pair.check_once()


def waits(pair: Pair) -> bool:
    # The server shows the state of the previous query if that was less than 0.1 s ago.
    time.sleep(0.2)
    return bool(rows(pair.target, WAITING))


def test_a_deadlock_is_retried(pair: Pair, other_session: Any) -> None:
    """The server ends the transaction that has changed fewer rows."""
    other_session.execute("UPDATE item SET note = 'mine' WHERE id > 100")
    run = pair.copy("--mode", "replace", partitions=1)
    eventually("it waits", lambda: waits(pair), PATIENCE)
    other_session.execute("UPDATE item SET note = 'mine' WHERE id = 1")
    failed = run.wait_for(Failed)
    assert failed.error["transient"]
    assert "Deadlock found" in failed.error["message"]
    other_session.connection.commit()
    run.ended(0)
    assert [event.attempt for event in run.of(Committed)] == [2]
    pair.check_once()


def test_own_locks_behind_a_proxy_that_hides_session_ids(pair: Pair) -> None:
    """With shared connections, MySQL Router reports the id 0 to every client."""
    pair.copy().ended(0)
    with closing(connect(pair.target, "target")) as connection:
        connection.server_thread_id = (0,)
        records = MySqlRecords(MySqlSession(connection, BY_BYTES), "penstock")
        assert connection.rows("SELECT get_lock(%s, 0)", [records.lock(f"penstock:{RUN_ID}:p0001")])
        assert records.open_attempts(RUN_ID) == {}


# Machines


def test_a_holder_on_another_machine(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its socket does not exist on this one."""
    with tempfile.TemporaryDirectory(prefix="p-") as folder:
        monkeypatch.setenv("TMPDIR", folder)
        tables = [f"{url.rpartition('/')[2]}.item" for url in (pair.source, pair.target)]
        spec = CopySpec(
            source=pair.source, target=pair.target, table=tables[0], target_table=tables[1],
            run_id=RUN_ID, strategy="range", key="id", partitions=PARTITIONS,
        )  # fmt: skip
        penstock.create(spec)
        pair.start("hold", RUN_ID, *pair.ends).wait_for(SnapshotChanged, state="taken")
        (home,) = Path(folder).glob("penstock-snapshot-*")
        home.rename(home.with_name("elsewhere"))
        task = pair.resume("--only", "p0001", "--await-snapshot", "1s")
        task.ended(75)
        assert (
            "found a lost one (source: the process that holds the snapshot has ended, "
            in task.errors
        )
        assert "tasks on several machines cannot share" in task.errors
        home.with_name("elsewhere").rename(home)
        pair.resume("--only", "p0001", "--await-snapshot", "1s").ended(0)
