"""Notices that a server sends unasked do not get in the way."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import closing

import pytest

from penstock.backends.postgresql.connection import connect

MANY = b"DO $$ BEGIN FOR i IN 1..200000 LOOP RAISE NOTICE 'x'; END LOOP; END $$"


class Cancelled(Exception):
    """Raised by the signal handler, as in a worker."""


def test_a_signal_during_notices_is_not_lost(target_url: str) -> None:
    def cancel(*_: object) -> None:
        raise Cancelled

    before = signal.signal(signal.SIGUSR1, cancel)
    timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGUSR1))
    try:
        with closing(connect(target_url, "target", "penstock:notices")) as connection:
            timer.start()
            with pytest.raises(Cancelled):
                connection.pgconn.exec_(MANY)
    finally:
        timer.cancel()
        signal.signal(signal.SIGUSR1, before)
