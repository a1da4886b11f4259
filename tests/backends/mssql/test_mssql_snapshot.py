"""Database snapshots, with a connection that imitates a server: the statements and their order."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock import CopySpec
from penstock.backends.mssql import MssqlBackend, backend, snapshot
from penstock.backends.mssql.connection import Connection
from penstock.backends.mssql.errors import DriverError
from penstock.backends.mssql.snapshot import HeldDatabase, creation_statement, enter, lock_of
from penstock.errors import PlanningError, SnapshotLost, TransientError
from penstock.events import SnapshotChanged
from penstock.model.snapshots import Snapshot

from .mssql_tables import Copy, execute, numbers, read_files, rows

FILES = [("shop", "/data/shop.mdf"), ("it's [2]", "D:\\data\\2.ndf")]


class Played(Connection):
    """A connection that imitates a server; part of a query determines its answer."""

    def __init__(self, **answers: Any) -> None:
        self.side, self.database, self.snapshot = "source", "my shop", ""
        self.edition, self.product, self.babelfish = 3, "Developer Edition", False
        self.statements: list[str] = []
        self.snapshots: list[str] = []
        self.locks: set[str] = set()
        """Locks that another session has."""
        self.may, self.is_dropped, self.cut = 1, False, False
        self.closed = False
        self.__dict__.update(answers)

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        self._ask(query, values)
        if "sp_getapplock" in query:
            return [(-1 if values[0] in self.locks else 0,)]
        if "HAS_PERMS_BY_NAME" in query:
            return [(self.may,)]
        if "master_files" in query:
            return list(FILES)
        if "source_database_id" in query:
            return [(name,) for name in self.snapshots]
        if "count(*)" in query:
            return [(0 if self.is_dropped else 1,)]
        return [("2026-01-02T03:04:05.1234567",)]

    def change(self, statement: str, values: Sequence[Any] = ()) -> int:
        self._ask(statement, values)
        if self.is_dropped and statement.startswith("USE") and "shop" not in statement:
            raise DriverError("08004", "[X]Database does not exist")
        return 0

    def _ask(self, statement: str, values: Sequence[Any]) -> None:
        if self.cut:
            raise DriverError("08S01", "")
        self.statements.append(" ".join([statement, *map(str, values)]))

    def close(self) -> None:
        self.closed = True

    def when(self, part: str) -> int:
        """Return the position of a statement."""
        (place,) = [place for place, statement in enumerate(self.statements) if part in statement]
        return place


def hold(monkeypatch: pytest.MonkeyPatch, *connections: Played) -> HeldDatabase:
    remaining = iter(connections)
    monkeypatch.setattr(snapshot, "connect", lambda url, side: next(remaining))
    return HeldDatabase("mssql://me@h/shop")


def test_the_statement_that_creates_a_snapshot() -> None:
    assert creation_statement("penstock_snapshot_1", 'my "shop"', FILES) == (
        'CREATE DATABASE "penstock_snapshot_1" ON'
        " (NAME = \"shop\", FILENAME = N'/data/shop.mdf.penstock_snapshot_1'),"
        " (NAME = \"it's [2]\", FILENAME = N'D:\\data\\2.ndf.penstock_snapshot_1')"
        ' AS SNAPSHOT OF "my ""shop"""'
    )


def test_a_snapshot_is_locked_before_its_creation_and_dropped_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = Played()
    held_databases = hold(monkeypatch, server)
    name = held_databases.snapshot.token
    assert name.startswith("penstock_snapshot_")
    assert held_databases.snapshot.taken_at == "2026-01-02T03:04:05.123456+00:00"
    assert "Shared Session 0" in server.statements[server.when(lock_of(name))]
    assert server.when(lock_of(name)) < server.when(f'CREATE DATABASE "{name}"')
    assert held_databases.is_alive()
    held_databases.close()
    held_databases.close()
    assert server.when(f'DROP DATABASE "{name}"')
    assert server.closed
    assert not held_databases.is_alive()


def test_an_interrupt_leaves_no_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted(Played):
        def change(self, statement: str, values: Sequence[Any] = ()) -> int:
            super().change(statement, values)
            if statement.startswith("CREATE DATABASE"):
                raise KeyboardInterrupt
            return 0

    server = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        hold(monkeypatch, server)
    assert server.when("DROP DATABASE") > server.when('CREATE DATABASE "')
    assert server.closed


def test_a_snapshot_survives_its_session(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = Played(), Played()
    held_databases = hold(monkeypatch, first, second)
    first.cut = True
    assert held_databases.is_alive()
    assert first.closed
    assert second.when(lock_of(held_databases.snapshot.token)) == 0
    held_databases.close()
    assert second.when(f'DROP DATABASE "{held_databases.snapshot.token}"')


def test_a_dropped_snapshot_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Played()
    held_databases = hold(monkeypatch, server)
    server.is_dropped = True
    assert not held_databases.is_alive()
    held_databases.close()
    assert not any("DROP" in sent for sent in server.statements)


def test_snapshots_of_killed_holders_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    leftover, read = "penstock_snapshot_left", "penstock_snapshot_read"
    server = Played(snapshots=[leftover, read], locks={lock_of(read)})
    hold(monkeypatch, server)
    assert "DATEADD(second, -600, GETDATE())" in server.statements[server.when("create_date")]
    first, *_ = (sent for sent in server.statements if lock_of(leftover) in sent)
    assert "Exclusive Session 0" in first
    assert server.when(f'DROP DATABASE "{leftover}"') < server.when('CREATE DATABASE "')
    assert not any(f'"{read}"' in sent for sent in server.statements)


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        (
            {"edition": 5, "product": "SQL Azure"},
            "SQL Azure has no database snapshots; pass --snapshot",
        ),
        (
            {"edition": 8, "product": "SQL Azure"},
            "SQL Azure has no database snapshots; pass --snapshot",
        ),
        (
            {"babelfish": True},
            "Developer Edition has no database snapshots; pass --snapshot none",
        ),
        ({"may": 0}, "GRANT CREATE ANY DATABASE TO the login and .*; or pass --snapshot none"),
    ],
)
def test_servers_without_snapshots(
    monkeypatch: pytest.MonkeyPatch, answers: dict[str, Any], message: str
) -> None:
    server = Played(**answers)
    with pytest.raises(PlanningError, match=message):
        hold(monkeypatch, server)
    assert server.closed
    assert not any("CREATE DATABASE " in sent for sent in server.statements)


def test_a_session_enters_one_snapshot_after_another() -> None:
    server = Played()
    enter(server, "penstock_snapshot_1")
    assert server.snapshot == "penstock_snapshot_1"
    assert server.when(lock_of("penstock_snapshot_1")) == 0
    assert server.when('USE "penstock_snapshot_1"') == 1
    enter(server, "penstock_snapshot_2")
    assert server.snapshot == "penstock_snapshot_2"
    # A lock belongs to the database in which it is taken.
    assert server.statements[2] == 'USE "my shop"'
    assert server.statements[3].endswith(lock_of("penstock_snapshot_1"))
    assert "Shared Session 0" in server.statements[4]


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ({"is_dropped": True}, "source: snapshot: Database does not exist"),
        ({"locks": {lock_of("penstock_snapshot_1")}}, "penstock_snapshot_1 is being dropped"),
    ],
)
def test_a_dropped_snapshot_cannot_be_entered(answers: dict[str, Any], message: str) -> None:
    server = Played(**answers)
    with pytest.raises(SnapshotLost, match=message):
        enter(server, "penstock_snapshot_1")
    assert not server.snapshot


class OtherDatabase(HeldDatabase):
    """A substitute for servers without snapshots: another database with the table."""

    def _take(self) -> Snapshot:
        database = self._connection.database
        self._hold()
        self._connection.change(f'CREATE DATABASE "{self._name}"')
        self._connection.use(self._name)
        self._connection.change("CREATE TABLE t (id int NOT NULL PRIMARY KEY)")
        self._connection.change(f'INSERT INTO t SELECT id FROM "{database}".dbo.t')
        self._connection.use("")
        self._connection.change("DELETE FROM t WHERE id > 50")
        return Snapshot(self._name, "2026-01-02T03:04:05.123456+00:00")


@pytest.fixture
def held_databases(mssql_url: str, monkeypatch: pytest.MonkeyPatch) -> list[HeldDatabase]:
    """Hold a snapshot of a database, then delete half of the table's rows."""
    execute(
        mssql_url,
        "CREATE TABLE t (id int NOT NULL PRIMARY KEY)",
        f"INSERT INTO t {numbers(100)}",
    )
    holders: list[HeldDatabase] = []

    def hold(*_: object) -> HeldDatabase:
        holders.append(OtherDatabase(mssql_url))
        return holders[-1]

    monkeypatch.setattr(MssqlBackend, "hold_snapshot", hold)
    return holders


def test_all_sessions_read_in_the_snapshot(
    mssql_url: str, tmp_path: Path, held_databases: list[HeldDatabase]
) -> None:
    copied = Copy(
        mssql_url, f"file://{tmp_path / 't'}", degree=2, snapshot="shared", strategy="ntile",
        key="id", partitions=3, verify="counts",
    )  # fmt: skip
    assert copied.done().rows == 100
    assert rows(mssql_url, "SELECT count(*) FROM t") == [(50,)]
    (name,) = (each.snapshot.token for each in held_databases)
    assert rows(mssql_url, f"SELECT DB_ID('{name}')") == [(None,)]
    with (
        closing(backend.source(mssql_url)) as source,
        pytest.raises(SnapshotLost, match="source: snapshot: "),
    ):
        source.adopt(held_databases[0].snapshot)


def test_others_read_in_the_snapshot_even_after_its_holder_was_killed(
    mssql_url: str, tmp_path: Path, held_databases: list[HeldDatabase]
) -> None:
    ends: dict[str, Any] = {"source": mssql_url, "target": f"file://{tmp_path / 't'}"}
    penstock.create(
        CopySpec(
            **ends, table="dbo.t", run_id="r", strategy="ntile", key="id", partitions=3, degree=1
        )
    )
    holding = penstock.hold("r", **ends)
    first_event = next(holding)
    assert isinstance(first_event, SnapshotChanged)
    states = []
    for only in (("p0001",), ()):
        for event in penstock.resume("r", **ends, only=only, await_snapshot=5):
            if isinstance(event, SnapshotChanged):
                states.append(event.state)
        if only:
            # As if its process were killed, which ends only its session.
            held_databases[0]._connection.close()
            held_databases[0]._closed = True
    assert states == ["adopted", "adopted"]
    assert len(held_databases) == 1
    assert len(read_files(tmp_path / "t")) == 100
    holding.close()
    execute(mssql_url, f'DROP DATABASE "{held_databases[0].snapshot.token}"')


def test_a_lost_session_does_not_mean_a_lost_snapshot() -> None:
    server = Played(cut=True)
    with pytest.raises(TransientError):
        enter(server, "penstock_snapshot_1")
