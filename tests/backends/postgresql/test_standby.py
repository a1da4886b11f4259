"""A hot standby as the source: it counts no writes, and nothing can be written to it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import psycopg
import pytest
from tests.conftest import fresh_database

from penstock import BatchSpec, PlanningError, SnapshotLost, copy, copy_all, plan, resume
from penstock.events import (
    BatchFinished,
    Committed,
    DegreeChanged,
    Failed,
    Finished,
    Opened,
    Planned,
    SnapshotChanged,
)
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
    """A pair whose source is the standby, with the primary's connection."""

    def __init__(self, pair: Pair, primary: psycopg.Connection[tuple[object, ...]]) -> None:
        self.pair = pair
        self._primary = primary

    def write_only(self, *statements: str) -> None:
        """Write to the primary."""
        for statement in statements:
            self._primary.execute(statement.encode())

    def write(self, *statements: str) -> None:
        """Write to the primary, and wait until the standby has replayed it."""
        self.write_only(*statements)
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
                time.sleep(0.02)  # the database has not been replayed yet
        with reader:
            new_standby = Standby(make_pair(mine, target, reader, theirs), writer)
            new_standby.write(
                "CREATE TABLE t (id int PRIMARY KEY, name text)",
                "INSERT INTO t SELECT n, 'x' FROM generate_series(1, 3000) AS n",
                "ANALYZE t",
            )
            new_standby.pair.target.run("CREATE TABLE t (id int PRIMARY KEY, name text)")
            yield new_standby


@pytest.mark.parametrize("strategy", ["ctid", "range", "ntile"])
def test_a_table_is_copied(standby: Standby, strategy: str) -> None:
    key = None if strategy == "ctid" else "id"
    report = standby.pair.copy(strategy=strategy, key=key, partitions=4, degree=2)
    assert report.rows == 3000
    standby.pair.assert_same()


def test_a_query_and_a_partitioned_table_are_copied(standby: Standby) -> None:
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


@pytest.mark.parametrize("has_writes", [False, True])
def test_resume_requires_that_nothing_was_replayed(standby: Standby, has_writes: bool) -> None:
    events = copy(standby.pair.spec(partitions=4, run_id="r"))
    for event in events:
        if isinstance(event, Committed):
            break
    events.close()
    pair = standby.pair
    if has_writes:
        standby.write("INSERT INTO t VALUES (0, 'late')")
        with pytest.raises(SnapshotLost, match="since: this source cannot tell whether it was"):
            list(resume("r", source=pair.source.url, target=pair.target.url))
    else:
        *_, report = resume("r", source=pair.source.url, target=pair.target.url)
        assert isinstance(report, Finished)
        pair.assert_same()


def test_a_recovery_conflict_is_retried(standby: Standby) -> None:
    """The standby cancels queries that conflict with the primary's changes."""
    spec = standby.pair.spec(
        None,
        query="SELECT id, name FROM t, pg_sleep(5)",
        target_table="public.t",
        snapshot="none",
    )

    def rename() -> None:
        # While the stream sleeps, it locks the table.
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
    assert "conflict with recovery" in failures[0].error["message"]
    assert "hot_standby_feedback" in failures[0].error["hint"]
    standby.pair.assert_same()


@pytest.mark.parametrize("reads_on", [False, True], ids=["fails", "accepts"])
def test_the_reason_for_a_lost_snapshot_is_told(standby: Standby, reads_on: bool) -> None:
    """The standby ends the snapshot's session, since the primary has vacuumed its rows away."""
    pair = standby.pair
    # Workers sleep between two rows: the snapshot outlives the delay.
    spec = pair.spec(
        strategy="range",
        key="id",
        partitions=20,
        where="pg_sleep(0.02) IS NOT NULL",
        on_snapshot_lost="accept" if reads_on else "fail",
    )
    lost: list[SnapshotChanged] = []
    failures: list[object] = []
    locker: threading.Thread | None = None

    def conflict() -> None:
        for _ in range(5):
            standby.write_only("UPDATE t SET name = name || 'y'", "VACUUM t")
            time.sleep(0.2)

    def run() -> None:
        nonlocal locker
        for event in copy(spec):
            if isinstance(event, Committed) and locker is None:
                locker = threading.Thread(target=conflict)
                locker.start()
            if isinstance(event, Failed):
                failures.append(event.error)
            if isinstance(event, SnapshotChanged) and event.state == "lost":
                lost.append(event)

    try:
        if reads_on:
            run()
        else:
            with pytest.raises(SnapshotLost, match=r"conflict with recovery.*hot_standby_feedback"):
                run()
    finally:
        assert locker is not None
        locker.join()
        print(failures)
    assert lost
    assert "conflict with recovery" in lost[0].message
    assert "hot_standby_feedback" in lost[0].message


def test_a_role_whose_transactions_are_serializable(standby: Standby) -> None:
    """A standby supports no such transaction, not even for the first question."""
    pair = standby.pair
    standby.write(
        "CREATE ROLE careful SUPERUSER LOGIN",
        "ALTER ROLE careful SET default_transaction_isolation = 'serializable'",
    )
    source = pair.source.url.replace("postgres@", "careful@")
    try:
        with (
            psycopg.connect(source, autocommit=True) as plain,
            pytest.raises(psycopg.errors.FeatureNotSupported),
        ):
            plain.execute("SELECT 1")
        report = pair.copy(source=source, partitions=3, degree=2, verify="checksums")
        assert report.rows == 3000
        (finished,) = [
            event
            for event in copy_all(
                BatchSpec.from_mapping(
                    {
                        "source": source,
                        "target": pair.target.url,
                        "tables": "public.t",
                        "mode": "recreate",
                    },
                    "test",
                )
            )
            if isinstance(event, BatchFinished)
        ]
        assert finished.status == "done"
        pair.assert_same()
    finally:
        standby.write("DROP ROLE careful")


def test_a_standby_as_target_is_refused(standby: Standby) -> None:
    pair = standby.pair
    with pytest.raises(PlanningError, match="read-only"):
        list(copy(pair.spec(source=pair.target.url, target=pair.source.url)))


# Sparing the source


def on_primary(url: str, servers: tuple[PostgresServer, PostgresServer]) -> str:
    primary, follower = servers
    return url.replace(f":{follower.port}/", f":{primary.port}/")


@contextmanager
def paused_replay(standby: Standby) -> Iterator[Callable[[], None]]:
    """Pause the standby's replay; yield a function that resumes it."""
    source = standby.pair.source
    source.run("SELECT pg_wal_replay_pause()")

    def go_on() -> None:
        source.run("SELECT pg_wal_replay_resume()")

    try:
        yield go_on
    finally:
        go_on()


# Conditions that are true once replay is more than a second behind.
LAGGING = {
    "standby": "pg_last_wal_receive_lsn() > pg_last_wal_replay_lsn()"
    " AND clock_timestamp() - pg_last_xact_replay_timestamp() > '1 second'",
    "primary": "coalesce(max(replay_lag), '0') > '1 second' FROM pg_stat_replication",
}


@pytest.mark.parametrize("source", ["standby", "primary"])
def test_no_partition_starts_while_the_source_lags(
    standby: Standby, source: str, servers: tuple[PostgresServer, PostgresServer]
) -> None:
    pair = standby.pair
    url = pair.source.url if source == "standby" else on_primary(pair.source.url, servers)
    spec = pair.spec(source=url, partitions=4, degree=2, max_lag="1s")
    opened: list[Opened] = []
    changes: list[DegreeChanged] = []
    with paused_replay(standby) as go_on, psycopg.connect(url, autocommit=True) as primary_session:
        standby.write_only("CREATE TABLE other AS SELECT n FROM generate_series(1, 1000) AS n")
        question = f"SELECT {LAGGING[source]}".encode()
        while primary_session.execute(question).fetchone() != (True,):
            time.sleep(0.05)
        for event in copy(spec):
            if isinstance(event, Opened):
                opened.append(event)
            elif isinstance(event, DegreeChanged):
                changes.append(event)
                if event.degree == 0:
                    assert not opened
                    go_on()
    assert [change.degree for change in changes] == [0, 2]
    assert {change.cause for change in changes} == {"lag"}
    assert "lags by" in changes[0].message
    assert len(opened) == 4
    pair.assert_same()


def test_streams_slow_down_when_the_source_begins_to_lag(standby: Standby) -> None:
    pair = standby.pair
    standby.write("INSERT INTO t SELECT n, repeat('x', 500) FROM generate_series(3001, 6500) AS n")
    spec = pair.spec(strategy="range", partitions=20, degree=2, max_lag="1s", max_rate="100KB")
    changes: list[int] = []
    pids: set[int] = set()
    with paused_replay(standby) as go_on:
        for event in copy(spec):
            if isinstance(event, Opened):
                pids.add(event.pid)
            elif isinstance(event, Committed) and not changes:
                standby.write_only("CREATE TABLE IF NOT EXISTS more (n int)")
            elif isinstance(event, DegreeChanged):
                changes.append(event.degree)
                if event.degree == 0:
                    go_on()
    # The degree drops step by step, and recovers.
    assert changes[:2] == [1, 0]
    assert changes[-1] == 2
    # The workers were idle in between, and the same ones continued.
    assert len(pids) == 2
    pair.assert_same()


def test_a_user_who_may_not_see_the_lag_is_informed_before_any_change(
    standby: Standby, servers: tuple[PostgresServer, PostgresServer]
) -> None:
    pair = standby.pair
    standby.write("CREATE ROLE blind LOGIN", "GRANT SELECT ON t TO blind")
    follower = pair.source.url.replace("postgres@", "blind@")
    pair.target.run("INSERT INTO t VALUES (0, 'there')")
    options = {"max_lag": "30s", "mode": "truncate"}
    spec = pair.spec(source=on_primary(follower, servers), **options)
    try:
        for act in (plan, lambda spec: list(copy(spec))):
            with pytest.raises(
                PlanningError, match=r"--max-lag: 'blind' may not see .*pg_read_all"
            ):
                act(spec)
        assert pair.target.value("SELECT count(*) FROM t") == 1
        # Every user may see how far a standby has replayed.
        *_, report = copy(pair.spec(source=follower, **options))
        assert isinstance(report, Finished)
        assert report.status == "done"
    finally:
        standby.write("DROP OWNED BY blind", "DROP ROLE blind")
