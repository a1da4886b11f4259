"""A hot standby as the source: it counts no writes, and nothing can be written to it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import psycopg
import pytest
from tests.conftest import fresh_database

from penstock import PlanningError, SnapshotLost, copy, resume
from penstock.events import Committed, Failed, Finished, Planned
from penstock_testkit import PostgresServer, Server

if TYPE_CHECKING:
    from tests.backends.conftest import Pair


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[PostgresServer, PostgresServer]]:
    with (
        PostgresServer(fsync=False) as primary,
        PostgresServer(
            fsync=False, standby_of=primary, settings={"max_standby_streaming_delay": "500ms"}
        ) as standby,
    ):
        yield primary, standby


class Standby:
    """A pair whose source is the standby, and the primary's connection."""

    def __init__(self, pair: Pair, primary: psycopg.Connection[tuple[object, ...]]) -> None:
        self.pair = pair
        self._primary = primary

    def write(self, *statements: str) -> None:
        """Write to the primary, and wait until the standby has it."""
        for statement in statements:
            self._primary.execute(statement.encode())
        found = self._primary.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()
        assert found is not None
        deadline = time.monotonic() + 60
        while not self.pair.source.value(f"SELECT pg_last_wal_replay_lsn() >= '{found[0]}'"):
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def wait_until_asleep(self) -> None:
        """Wait until a session of the standby sleeps."""
        asleep = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
        deadline = time.monotonic() + 60
        while not self.pair.source.value(asleep):
            assert time.monotonic() < deadline
            time.sleep(0.02)


@pytest.fixture
def standby(
    servers: tuple[PostgresServer, PostgresServer],
    target_server: Server,
    make_pair: Callable[..., Pair],
) -> Iterator[Standby]:
    primary, follower = servers
    with (
        fresh_database(primary) as url,
        fresh_database(target_server) as target,
        psycopg.connect(url, autocommit=True) as writer,
        psycopg.connect(target, autocommit=True) as theirs,
    ):
        mine = url.replace(f":{primary.port}/", f":{follower.port}/")
        for _ in range(3000):
            try:
                reader = psycopg.connect(mine, autocommit=True)
                break
            except psycopg.OperationalError:
                time.sleep(0.02)  # the database is not there yet
        with reader:
            made = Standby(make_pair(mine, target, reader, theirs), writer)
            made.write(
                "CREATE TABLE t (id int PRIMARY KEY, name text)",
                "INSERT INTO t SELECT n, 'x' FROM generate_series(1, 3000) AS n",
                "ANALYZE t",
            )
            made.pair.target.run("CREATE TABLE t (id int PRIMARY KEY, name text)")
            yield made


@pytest.mark.parametrize("strategy", ["ctid", "range", "ntile"])
def test_is_copied(standby: Standby, strategy: str) -> None:
    key = None if strategy == "ctid" else "id"
    report = standby.pair.copy(strategy=strategy, key=key, partitions=4, degree=2)
    assert report.rows == 3000
    standby.pair.assert_same()


def test_a_query_and_a_table_of_many(standby: Standby) -> None:
    standby.write(
        "CREATE TABLE s (id int, name text) PARTITION BY HASH (id)",
        "CREATE TABLE s1 PARTITION OF s FOR VALUES WITH (MODULUS 2, REMAINDER 0)",
        "CREATE TABLE s2 PARTITION OF s FOR VALUES WITH (MODULUS 2, REMAINDER 1)",
        "INSERT INTO s TABLE t",
    )
    standby.pair.copy("public.s", target_table="public.t", partitions=4)
    standby.pair.assert_same()
    *_, _ = copy(standby.pair.spec(None, query="TABLE s", target_table="public.t", mode="truncate"))
    standby.pair.assert_same()


@pytest.mark.parametrize("written", [False, True])
def test_resume_goes_on_only_where_nothing_was_replayed(standby: Standby, written: bool) -> None:
    events = copy(standby.pair.spec(partitions=4, run_id="r"))
    for event in events:
        if isinstance(event, Committed):
            break
    events.close()
    pair = standby.pair
    if written:
        standby.write("INSERT INTO t VALUES (0, 'late')")
        with pytest.raises(SnapshotLost, match="since: this source cannot tell whether it was"):
            list(resume("r", source=pair.source.url, target=pair.target.url))
    else:
        *_, report = resume("r", source=pair.source.url, target=pair.target.url)
        assert isinstance(report, Finished)
        pair.assert_same()


def test_a_conflict_with_recovery_is_tried_again(standby: Standby) -> None:
    """The standby cancels what stands in the way of what the primary did."""
    spec = standby.pair.spec(
        None,
        query="SELECT id, name FROM t, pg_sleep(5)",
        target_table="public.t",
        snapshot="none",
    )

    def rename() -> None:
        # While the stream sleeps, it holds a lock on the table.
        standby.wait_until_asleep()
        standby.write("ALTER TABLE t RENAME TO u", "ALTER TABLE u RENAME TO t")

    failures: list[Failed] = []
    for event in copy(spec):
        if isinstance(event, Planned):
            locker = threading.Thread(target=rename)
            locker.start()
        if isinstance(event, Failed):
            failures.append(event)
    locker.join()
    assert [failure.error["transient"] for failure in failures] == [True]
    standby.pair.assert_same()


def test_a_standby_as_target_is_refused(standby: Standby) -> None:
    pair = standby.pair
    with pytest.raises(PlanningError, match="read-only"):
        list(copy(pair.spec(source=pair.target.url, target=pair.source.url)))
