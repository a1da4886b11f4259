"""The source as of each night's own snapshot, and what the target was seen to hold.

A run's first session after the one that exports a snapshot imports it, through a proxy: there the
run waits until the source was read with that same snapshot. Writers work all the while.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping
from contextlib import closing

import psycopg
from tests.faults.pair import connect

import penstock
from penstock.model.nights import Watermark
from penstock_testkit import TcpProxy

State = frozenset[tuple[int, str, bool]]
"""Key, values, and whether the row is marked as gone."""

NOTHING: State = frozenset()
ROW = "(id, email, n, md5(big))::text"


class Moments:
    """
    Parameters:
        proxy: through which nights read.
    """

    def __init__(self, url: str, proxy: TcpProxy) -> None:
        self._url = url
        self._known: dict[str, Mapping[int, str]] = {}
        self._lock = threading.Lock()
        proxy.on_bytes(b"SET TRANSACTION SNAPSHOT", "to_server", self._look, once=False)

    def _look(self) -> None:
        with self._lock, closing(connect(self._url)) as connection:
            tokens = [token for (token,) in connection.execute("SELECT pg_ls_dir('pg_snapshots')")]
            for token in tokens:
                if token not in self._known:
                    # The run that has exported it may have been killed just now.
                    with contextlib.suppress(psycopg.Error):
                        self._known[token] = self._read(connection, token)
                    connection.execute("ROLLBACK")

    def _read(
        self, connection: psycopg.Connection[tuple[object, ...]], token: str
    ) -> dict[int, str]:
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        connection.execute(f"SET TRANSACTION SNAPSHOT '{token}'".encode())
        # A query sees what is attached by now; the snapshot, what was attached then.
        found = connection.execute(
            f"SELECT id, {ROW} FROM items WHERE tableoid = 'items'::regclass OR tableoid IN"
            " (SELECT inhrelid FROM pg_inherits WHERE inhparent = 'items'::regclass)"
        )
        return {int(key): str(row) for key, row in found.fetchall()}  # type: ignore[call-overload]

    def of(self, mark: Watermark, target: str) -> Mapping[int, str]:
        """The rows that the source had."""
        run = penstock.status(mark.run_id, target=target).run
        (token,) = {each.token for each in run.snapshots if each.taken_at == mark.moment}
        return self._known[token]


def states(moments: Moments, target: str, deletes: str) -> list[State]:
    """What the target has to have held before the first night, and after each one that has ended
    well."""
    found, held = [NOTHING], dict[int, tuple[str, bool]]()
    marks = penstock.watermarks(target=target)
    history = penstock.watermark_history(marks[0].name, target=target) if marks else ()
    for mark in reversed(history):
        now = moments.of(mark, target)
        gone = {key: (row, True) for key, (row, _) in held.items() if key not in now}
        left = {
            "hard": {},
            "soft": gone,
            "ignore": {key: (row, False) for key, (row, _) in gone.items()},
        }[deletes]
        held = {**left, **{key: (row, False) for key, row in now.items()}}
        found.append(frozenset((key, *values) for key, values in held.items()))
    return found


def read_target(connection: psycopg.Connection[tuple[object, ...]], deletes: str) -> State:
    gone = "deleted_at IS NOT NULL" if deletes == "soft" else "false"
    rows = connection.execute(f"SELECT id, {ROW}, {gone} FROM items".encode()).fetchall()
    return frozenset((int(key), str(row), bool(mark)) for key, row, mark in rows)  # type: ignore[call-overload]


class Reader(threading.Thread):
    """Reads the target again and again, and keeps what it has seen."""

    def __init__(self, url: str, deletes: str) -> None:
        super().__init__(daemon=True)
        self._url, self._deletes = url, deletes
        self._ended = threading.Event()
        self.seen: list[State] = []
        self.failed: BaseException | None = None

    def run(self) -> None:
        try:
            with closing(connect(self._url)) as connection:
                while not self._ended.wait(0.03):
                    found = read_target(connection, self._deletes)
                    if not self.seen or self.seen[-1] != found:
                        self.seen.append(found)
        except BaseException as error:
            self.failed = error

    def end(self) -> None:
        self._ended.set()
        self.join(60)
        if self.failed:
            raise self.failed


def check_seen(seen: list[State], expected: list[State]) -> None:
    """
    Raises:
        AssertionError: a reader has seen what was the source's at no moment, or gone back.
    """
    at = 0
    for state in seen:
        found = next((i for i in range(at, len(expected)) if expected[i] == state), None)
        if found is None:
            nearest = min(expected, key=lambda each: len(each ^ state))
            where = expected.index(nearest)
            raise AssertionError(
                f"a reader saw what no night has left since number {at}; the nearest is that of "
                f"number {where}, without {_some(nearest - state)}, with {_some(state - nearest)}"
            )
        at = found


def check_same(found: State, expected: State) -> None:
    missing, extra = expected - found, found - expected
    assert found == expected, f"missing {_some(missing)}; not expected {_some(extra)}"


def _some(rows: State) -> str:
    return f"{len(rows)}: {sorted(rows)[:4]}"
