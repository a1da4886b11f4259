"""Closing a session while another thread executes on it: close waits, or the other thread closes
it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import pytest

from penstock.backends.postgresql.connection import Connection, abandon, connect

TRIES = 30
# In a separate process, which may crash. Freed memory is overwritten there, to make a crash
# certain.
CRASHES = f"""
import sys, threading, time, psycopg
from penstock.backends.postgresql.connection import abandon, connect
from penstock.errors import TransientError

def work(connection, begun):
    try:
        while True:
            begun.set()
            connection.execute("SELECT repeat('x', 100000), pg_sleep(%s)", [float(sys.argv[2])])
    except (psycopg.Error, TransientError):  # the latter if it was still being set up
        pass

for number in range({TRIES}):
    connection, begun = connect(sys.argv[1], "target", "penstock:test"), threading.Event()
    thread = threading.Thread(target=work, args=(connection, begun))
    thread.start()
    begun.wait()
    time.sleep(number / 1000)
    abandon(connection)
    thread.join()
    assert connection.closed
"""


@pytest.mark.parametrize("seconds", ["0", "600"])
def test_nothing_is_freed_during_a_call(target_url: str, seconds: str) -> None:
    found = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", CRASHES, target_url, seconds],
        env={**os.environ, "MALLOC_PERTURB_": "165"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (found.returncode, found.stderr) == (0, "")


def poll_until(poll: Connection, expected: int, query: str) -> None:
    deadline = time.monotonic() + 60
    while (found := poll.value(query)) != expected and time.monotonic() < deadline:
        time.sleep(0.01)
    assert found == expected


class Deaf(Connection):
    """A connection whose cancel requests never reach the server."""

    def cancel_safe(self, *, timeout: float = 0.0) -> None:
        raise OSError("no answer")


@pytest.mark.parametrize("close", [abandon, Connection.close])
def test_the_session_is_closed_once_the_call_has_ended(
    target_url: str, close: Callable[[Connection], None]
) -> None:
    """Even if the closing thread has stopped waiting for that."""
    poll = connect(target_url, "target", "penstock:asking")
    poll.execute("SELECT pg_advisory_lock(1)")
    connection = Deaf.connect(target_url, autocommit=True, application_name="penstock:closed")
    thread = threading.Thread(target=connection.execute, args=("SELECT pg_advisory_lock(1)",))
    thread.start()
    poll_until(poll, 1, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
    close(connection)
    before = connection.closed
    poll.execute("SELECT pg_advisory_unlock(1)")
    thread.join()
    assert (before, connection.closed) == (False, True)
    sessions = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'penstock:closed'"
    poll_until(poll, 0, sessions)
    poll.close()
