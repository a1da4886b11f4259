"""The pump handles a signal within 100 ms, whatever the servers do."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from psycopg import sql
from psycopg.pq import ExecStatus

from penstock.backends.postgresql.connection import abandon, connect
from penstock.backends.postgresql.native import NativeMover, pump
from penstock.backends.postgresql.session.cancellable import send, start_copy
from penstock.workers.stream import Meter, Waiter

from ...conftest import native_missing

if TYPE_CHECKING:
    from tests.backends.conftest import Pair

PROMISED = 0.1
STILL = 5
TRIES = 5
NUMBER = signal.SIGUSR1
pytestmark = pytest.mark.skipif(native_missing() is not None, reason=str(native_missing()))

# A row at the start, so that the server begins to send.
SILENT = "SELECT pg_catalog.repeat('a', 100000) UNION ALL SELECT pg_catalog.pg_sleep(600)::text"
# In the SELECT list: in FROM it would be materialised before the first row.
NUMBERS = "SELECT pg_catalog.generate_series(1, 1000000000)"
ENDLESS = f"SELECT pg_catalog.repeat('a', 1000) FROM ({NUMBERS}) AS numbers"
TAKES = "COPY t FROM STDIN WHERE false"
TAKES_NOTHING = "COPY stuck FROM STDIN"
STUCK = (
    "CREATE TABLE stuck (a text)",
    "CREATE FUNCTION sleep() RETURNS trigger LANGUAGE plpgsql AS"
    " 'BEGIN PERFORM pg_catalog.pg_sleep(600); RETURN NULL; END'",
    "CREATE TRIGGER sleep BEFORE INSERT ON stuck FOR EACH ROW EXECUTE FUNCTION sleep()",
)


class Taken(Exception):
    """Raised by the handler, like a worker's own exception when it is cancelled."""


class Watched(NativeMover):
    """A mover that signals when a turn begins."""

    begins: threading.Event

    def run(self, seconds: float, target_socket: int, check: Callable[[], None]) -> bool:
        self.begins.set()
        return super().run(seconds, target_socket, check)


class Sender:
    """Sends a signal just after a turn has begun, so that the whole turn lies ahead.

    The signal goes to the sending thread: one to the pump's thread would end its wait at once.
    """

    def __init__(self) -> None:
        self.begins = threading.Event()
        self.sent_at = 0.0

    @contextmanager
    def sends(self) -> Iterator[None]:
        self.begins.clear()
        thread = threading.Thread(target=self._send)
        thread.start()
        try:
            yield
        finally:
            self.begins.set()
            thread.join()

    def _send(self) -> None:
        self.begins.wait()
        self.sent_at = time.monotonic()
        signal.pthread_kill(threading.get_ident(), NUMBER)


@pytest.fixture
def sender() -> Iterator[Sender]:
    def take(*_: object) -> None:
        raise Taken

    before = signal.signal(NUMBER, take)
    yield Sender()
    signal.signal(NUMBER, before)


@pytest.mark.parametrize(
    ("rows", "into", "moves"),
    [(SILENT, TAKES, False), (ENDLESS, TAKES_NOTHING, False), (ENDLESS, TAKES, True)],
    ids=["the source sends nothing", "the target takes nothing", "rows flow"],
)
def test_a_signal_is_handled_within_100_ms(
    rows: str, into: str, moves: bool, pair: Pair, sender: Sender
) -> None:
    """The promise is a duration, so the duration is asserted: the best of several tries, because
    this machine may be busy."""
    pair.target.run("CREATE TABLE t (a text)", *STUCK)
    source = connect(pair.source.url, "source", "penstock:test")
    target = connect(pair.target.url, "target", "penstock:test")
    waiter = Waiter(Meter(), 0)
    try:
        copied = sql.SQL("COPY ({}) TO STDOUT").format(sql.SQL(rows))
        unanswered = send(source, copied, "source", waiter)
        start_copy(target, sql.Composed([sql.SQL(into)]), "target", waiter, ExecStatus.COPY_IN)
        source.pgconn.nonblocking = target.pgconn.nonblocking = 1
        mover = Watched(pump(source, target, unanswered), (source, target))
        mover.begins = sender.begins
        size, still = -1, 0
        # Until buffers are full, or everything is sent: a busy source may send nothing for a turn.
        while not moves and still < STILL:
            size = mover.bytes
            waiter.turn(mover)
            still = still + 1 if mover.bytes == size else 0
        times = [taken_after(sender, waiter, mover) for _ in range(TRIES)]
        assert (mover.bytes > size) is moves
    finally:
        abandon(source)
        abandon(target)
    assert min(times) <= PROMISED, times


def taken_after(sender: Sender, waiter: Waiter, mover: NativeMover) -> float:
    """Return the seconds from a signal, sent when a turn begins, to the handler's end."""
    try:
        with sender.sends():
            while True:
                waiter.turn(mover)
    except Taken:
        return time.monotonic() - sender.sent_at
