"""What a run's sessions wait for, according to PostgreSQL."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING

import psycopg
import pytest

from penstock import copy
from penstock.backends.api.optional.pulse import KINDS, LOCKS, LOG, MOVER, OTHER, STORAGE, WORKING
from penstock.backends.postgresql.backend import PostgresBackend
from penstock.backends.postgresql.pulse import PostgresPulse
from penstock.errors import PermanentError
from penstock.events import Event, Finished, Prepared, Sampled

if TYPE_CHECKING:
    from tests.backends.conftest import Pair


@contextmanager
def running(url: str, name: str, statement: str) -> Iterator[None]:
    """Yield while a session with that application name executes a statement."""
    with psycopg.connect(url, application_name=name) as connection:

        def run() -> None:
            with pytest.raises(psycopg.errors.QueryCanceled):
                connection.execute(statement)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield
        finally:
            while thread.is_alive():
                connection.cancel_safe()
                thread.join(0.05)


def test_sessions_are_counted_by_what_they_wait_for(pair: Pair) -> None:
    pair.target.run("CREATE TABLE t (n int)")
    url = pair.target.url
    expected = {
        "r1": {"Lock:relation": 2, "Timeout:PgSleep": 1},
        "r2": {"Timeout:PgSleep": 1},
    }
    with ExitStack() as stack:
        holder = stack.enter_context(psycopg.connect(url, application_name="penstock:r1:p0004:1"))
        holder.execute("LOCK TABLE t")  # and is idle from here on
        for name, statement in (
            ("penstock:r1:p0001:1", "TABLE t"),
            ("penstock:r1:p0002:1", "TABLE t"),
            ("penstock:r1:p0003:2", "SELECT pg_sleep(600)"),
            ("penstock:r2:p0001:1", "SELECT pg_sleep(600)"),
            ("penstock:r3:p0001:1", "SELECT pg_sleep(600)"),
            ("penstock:control/r1", "SELECT pg_sleep(600)"),
            ("psql", "TABLE t"),
        ):
            stack.enter_context(running(url, name, statement))
        with closing(PostgresPulse(url, "target")) as pulse:
            deadline = time.monotonic() + 30
            while (found := pulse.waits(["r1", "r2"])) != expected:
                assert time.monotonic() < deadline, found
                time.sleep(0.05)
            assert pulse.waits([]) == {}


def test_a_user_without_the_privilege_is_informed(pair: Pair) -> None:
    url = pair.target.url
    pair.target.run("DROP ROLE IF EXISTS blind", "CREATE ROLE blind LOGIN")
    try:
        with (
            running(url, "penstock:r1:p0001:1", "SELECT pg_sleep(600)"),
            closing(PostgresPulse(url.replace("postgres@", "blind@"), "target")) as pulse,
            pytest.raises(PermanentError, match=r"^target: 'blind' may not see .*read_all_stats"),
        ):
            pulse.waits(["r1"])
    finally:
        pair.target.run("DROP ROLE blind")


@pytest.mark.parametrize(
    ("wait", "kind"),
    [
        ("CPU", WORKING),
        ("Lock:extend", LOCKS),
        ("Lock:relation", LOCKS),
        ("LWLock:BufferMapping", LOCKS),
        ("LWLock:buffer_content", LOCKS),
        ("LWLock:WALInsert", LOG),
        ("LWLock:WALWriteLock", LOG),
        ("LWLock:wal_insert", LOG),
        ("IO:WALSync", LOG),
        ("IO:WalInitWrite", LOG),
        ("IO:DataFileExtend", STORAGE),
        ("Client:ClientRead", MOVER),
        ("IPC:SyncRep", OTHER),
        ("Timeout:VacuumDelay", OTHER),
    ],
)
def test_a_wait_event_is_classified(wait: str, kind: str) -> None:
    assert kind in KINDS
    assert PostgresBackend().wait_kind(wait) == kind


def test_a_copy_reports_what_its_sessions_wait_for(pair: Pair) -> None:
    pair.both("CREATE TABLE t (n int)")
    pair.source.run("INSERT INTO t SELECT generate_series(1, 1000)")
    seen: list[Event] = []
    with psycopg.connect(pair.target.url) as holder:
        for event in copy(pair.spec()):
            seen.append(event)
            if isinstance(event, Prepared):
                holder.execute("LOCK TABLE t IN EXCLUSIVE MODE")
            elif isinstance(event, Sampled) and event.side == "target":
                assert event.waits == {"Lock:relation": 1}
                holder.rollback()
    assert isinstance(seen[-1], Finished)
    sides = {event.side for event in seen if isinstance(event, Sampled)}
    assert "target" in sides
    assert seen[-1].status == "done"
