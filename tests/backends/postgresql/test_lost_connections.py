"""Losing the connection during any catalog query is always a transient error."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from penstock import TransientError, status, verify
from penstock.backends.postgresql.connection import Connection, connect

if TYPE_CHECKING:
    from tests.backends.conftest import Pair

# Each of these plans sends queries of its own.
PLANS: dict[str, dict[str, Any]] = {
    "histogram": {"strategy": "range", "key": "id", "partitions": 4, "where": "id > 3"},
    "sample": {"strategy": "range", "key": "never", "partitions": 4},
    "ntile": {"strategy": "ntile", "key": "id", "partitions": 4},
    "values": {"strategy": "values", "key": "kind"},
    "windows": {"strategy": "time", "key": "at", "interval": "1 day"},
    "windows that are found": {"strategy": "time", "key": "at", "where": "id > 3"},
    "query": {"table": None, "query": "TABLE t", "target_table": "public.t"},
    "swap": {"mode": "swap"},
    "recreate": {"mode": "recreate"},
    "upsert": {"mode": "upsert"},
    "replace": {"mode": "replace", "key": "id"},
    "night": {"mode": "upsert", "incremental": "xmin", "deletes": "hard"},
    "indexes": {"indexes": "defer", "unlogged": True, "mode": "truncate"},
}


@pytest.fixture
def filled(pair: Pair) -> Pair:
    pair.both("CREATE TABLE t (id int PRIMARY KEY, kind int, at timestamptz, never int)")
    pair.source.run(
        "INSERT INTO t SELECT n, n % 3, timestamptz '2026-01-01' + n * interval '1 hour', n"
        " FROM generate_series(1, 200) AS n",
        "ANALYZE t (id, kind, at)",
    )
    return pair


@contextmanager
def lost_at(
    monkeypatch: pytest.MonkeyPatch, admin: psycopg.Connection[Any], number: int
) -> Iterator[list[str]]:
    """Terminate the session at the query with this number; yield all queries sent."""
    queries: list[str] = []
    execute = Connection.execute

    def ending(self: Connection, *args: Any, **options: Any) -> psycopg.Cursor[tuple[Any, ...]]:
        if self.side:
            queries.append(f"{self.side}: {args[0]}")
            if len(queries) == number:
                admin.execute("SELECT pg_terminate_backend(%s, 10000)", [self.info.backend_pid])
        return execute(self, *args, **options)

    with monkeypatch.context() as patched:
        patched.setattr(Connection, "execute", ending)
        yield queries


def ask_all(
    monkeypatch: pytest.MonkeyPatch, pair: Pair, call: Callable[[], object], tried: set[str]
) -> None:
    """Lose the connection at each query that was not tried yet."""
    with lost_at(monkeypatch, pair.source.connection, 0) as queries:
        call()
    assert len(queries) > 3
    for number, question in enumerate(queries, 1):
        if question in tried:
            continue
        tried.add(question)
        side = pair.source if question.startswith("source") else pair.target
        with lost_at(monkeypatch, side.connection, number):
            try:
                call()
            except TransientError:
                continue
            except Exception as error:
                raise AssertionError(f"lost at {question}") from error


@pytest.fixture(scope="module")
def tried() -> set[str]:
    return set()


@pytest.mark.parametrize("options", PLANS.values(), ids=PLANS)
def test_planning_loses_its_connection(
    filled: Pair, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], tried: set[str]
) -> None:
    ask_all(monkeypatch, filled, lambda: filled.plan(**options), tried)


@pytest.mark.parametrize("checksum", [False, True])
def test_inspecting_a_run_loses_its_connection(
    filled: Pair, monkeypatch: pytest.MonkeyPatch, checksum: bool, tried: set[str]
) -> None:
    filled.copy(run_id="r", strategy="range", key="id", partitions=3)
    ends: dict[str, str] = {"source": filled.source.url, "target": filled.target.url}

    def look() -> None:
        verify("r", **ends, checksum=checksum, show_rows=checksum)
        status("r", target=ends["target"])

    ask_all(monkeypatch, filled, look, tried)


def test_a_reset_shows_on_the_socket_before_the_connection(pair: Pair) -> None:
    """Reset during a wait, a socket is neither readable nor writable for a moment."""
    reading, broken = os.pipe()
    os.close(reading)
    try:
        with closing(connect(pair.source.url, "source", "penstock:test")) as connection:
            connection.side = "source"
            connection.execute("SELECT 1")
            aside = os.dup(connection.fileno())
            change = threading.Timer(0.3, os.dup2, [broken, connection.fileno()])
            change.start()
            with pytest.raises(TransientError, match="source: connection socket closed"):
                connection.execute("SELECT pg_sleep(2)")
            assert not connection.closed
            os.dup2(aside, connection.fileno())
            os.close(aside)
    finally:
        os.close(broken)
