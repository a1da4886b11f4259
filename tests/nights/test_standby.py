"""Nights from standbys that may lag, and from a promoted one that has lost commits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from tests.conftest import fresh_database
from tests.faults.cli import PATIENCE, eventually
from tests.faults.pair import ask, connect, execute
from tests.one_copy import OneCopy

import penstock
from penstock.events import Merged
from penstock_testkit import PostgresServer, Server

ALL = "SELECT * FROM items ORDER BY id"
NAME = "public.items to public.items"
# A standby's replay waits for queries, whether the log is streamed or read from disk.
NEVER_CANCEL = {"max_standby_streaming_delay": -1, "max_standby_archive_delay": -1}


class Family:
    """A primary, its standby, and a target."""

    def __init__(self, primary: PostgresServer, standby: PostgresServer, target: str) -> None:
        self.primary, self.standby, self.target = primary.url, standby.url, target
        execute(
            self.primary,
            "DROP TABLE IF EXISTS items",
            "CREATE TABLE items (id int PRIMARY KEY, word text)",
            "INSERT INTO items SELECT i, 'w' || i FROM generate_series(1, 500) AS i",
        )
        self.catch_up()

    def catch_up(self) -> None:
        execute(self.standby, "SELECT pg_wal_replay_resume()")
        at = ask(self.primary, "SELECT pg_current_wal_insert_lsn()::text")
        reached = f"SELECT pg_last_wal_replay_lsn() >= '{at}'"
        eventually("the standby catches up", lambda: ask(self.standby, reached), PATIENCE)

    def lag(self) -> None:
        """Make the standby lag from now on, until it catches up."""
        self.catch_up()
        execute(self.standby, "SELECT pg_wal_replay_pause()")
        paused = "SELECT pg_get_wal_replay_pause_state() = 'paused'"
        eventually("the standby pauses", lambda: ask(self.standby, paused), PATIENCE)

    def night(self, source: str, **options: Any) -> OneCopy:
        copy_options = {"mode": "upsert", "incremental": "xmin", "deletes": "hard", **options}
        return OneCopy(source=source, target=self.target, table="public.items", **copy_options)

    def rows(self, url: str) -> list[tuple[Any, ...]]:
        return rows(url)


def rows(url: str) -> list[tuple[Any, ...]]:
    with connect(url) as connection:
        return connection.execute(ALL).fetchall()


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[PostgresServer, PostgresServer]]:
    settings = {"autovacuum": False, **NEVER_CANCEL}
    with (
        PostgresServer(fsync=False, settings=settings) as primary,
        PostgresServer(fsync=False, settings=settings, standby_of=primary) as standby,
    ):
        yield primary, standby


@pytest.fixture
def family(
    servers: tuple[PostgresServer, PostgresServer], target_server: Server
) -> Iterator[Family]:
    with fresh_database(target_server) as target:
        yield Family(*servers, target)


def full(night: OneCopy) -> str:
    """Return the reason why a night has read all rows."""
    night.done()
    (merged,) = (event for event in night.events if isinstance(event, Merged))
    return merged.full


def test_a_standby_and_its_primary_may_take_turns(family: Family) -> None:
    family.night(family.primary).done()
    for number, source in enumerate([family.standby, family.primary, family.standby]):
        execute(
            family.primary,
            f"UPDATE items SET word = 'x{number}' WHERE id % 10 = {number}",
            f"DELETE FROM items WHERE id % 50 = {number}",
        )
        family.catch_up()
        night = family.night(source)
        assert full(night) == ""
        assert family.rows(family.target) == family.rows(family.primary)


@pytest.mark.parametrize("reset", [False, True])
def test_a_night_waits_for_a_lagging_standby(family: Family, reset: bool) -> None:
    family.night(family.standby).done()
    family.lag()
    execute(family.primary, "UPDATE items SET word = 'new'", "DELETE FROM items WHERE id < 9")
    family.night(family.primary).done()
    if reset:
        penstock.reset_watermark(NAME, target=family.target)
    before = family.rows(family.target)
    early = family.night(family.standby)
    assert early.code == 75
    assert "once the standby has caught up" in early.message
    assert family.rows(family.target) == before
    family.catch_up()
    family.night(family.standby).done()
    assert family.rows(family.target) == family.rows(family.primary)


def test_a_lagging_standby_may_have_the_same_horizon(family: Family) -> None:
    """On the standby, a transaction is still open that the last night saw committed.

    Its row is among those that are read again, with the old values.
    """
    with psycopg.connect(family.primary) as oldest, psycopg.connect(family.primary) as late:
        oldest.execute("UPDATE items SET word = 'held' WHERE id = 1")
        execute(family.primary, "UPDATE items SET word = 'old' WHERE id IN (2, 3)")
        family.night(family.primary).done()
        late.execute("UPDATE items SET word = 'new' WHERE id = 2")
        late.execute("DELETE FROM items WHERE id = 3")
        execute(family.primary, "UPDATE items SET word = 'other' WHERE id = 4")
        family.lag()
        late.commit()
        family.night(family.primary).done()
        early = family.night(family.standby, deletes="ignore")
        assert early.code == 75
        assert "once the standby has caught up" in early.message
        assert family.rows(family.target) == family.rows(family.primary)
        family.catch_up()
        family.night(family.standby).done()


def test_lost_commits_of_a_promoted_standby_are_noticed(target_server: Server) -> None:
    settings = {"autovacuum": False, **NEVER_CANCEL}
    with (
        PostgresServer(fsync=False, settings=settings) as primary,
        PostgresServer(fsync=False, settings=settings, standby_of=primary) as standby,
        fresh_database(target_server) as target,
    ):
        family = Family(primary, standby, target)
        family.night(family.standby).done()
        family.lag()
        for number in range(20):  # transactions that reuse these ids
            execute(family.primary, f"UPDATE items SET word = 'lost' WHERE id = {number}")
        execute(family.primary, "INSERT INTO items VALUES (1000, 'lost')")
        family.night(family.primary).done()
        primary.kill()
        execute(family.standby, "SELECT pg_wal_replay_resume()", "SELECT pg_promote(false)")
        promoted = "SELECT NOT pg_is_in_recovery()"
        eventually("it is promoted", lambda: ask(family.standby, promoted), PATIENCE)
        for number in range(100, 140):
            execute(family.standby, f"UPDATE items SET word = 'kept' WHERE id = {number}")
        night = family.night(family.standby)
        assert "failed over from timeline" in full(night)
        assert family.rows(target) == family.rows(family.standby)
        execute(family.standby, "UPDATE items SET word = 'on' WHERE id = 7")
        again = family.night(family.standby)
        assert full(again) == ""
        assert family.rows(target) == family.rows(family.standby)
