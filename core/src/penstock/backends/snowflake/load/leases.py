"""The processes that are active, shown by signs of life in a table.

Snowflake's sessions hold no named locks, and outlive their clients.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from penstock.backends.snowflake.connection import Connection, Error, connect
from penstock.errors import PenstockError

BEAT_SECONDS = 5.0
LAPSE_SECONDS = 30
"""A process without a sign of life for this long counts as gone; on the same machine that is
detected at once.
"""
BEATEN = f"DATEDIFF(second, beat_at, SYSDATE()) < {LAPSE_SECONDS}"


@cache
def _machine() -> str:
    """Return what process ids are unique within; empty if unknown."""
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    return ""


def _start_of_process(number: int) -> str:
    """Return when a process began, to recognize reused ids; empty if it has ended.

    Raises:
        OSError: the system does not tell.
    """
    try:
        text = Path(f"/proc/{number}/stat").read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""
    state, *fields = text.rpartition(")")[2].split()
    return "" if state == "Z" else fields[18]


def this_process() -> str:
    """Return a text that identifies this process; empty if it cannot be determined."""
    try:
        return f"{_machine()}|{os.getpid()}|{_start_of_process(os.getpid())}"
    except OSError:
        return ""


def has_ended(process: str | None) -> bool:
    """Whether a process is known to have ended."""
    machine, _, identity = (process or "").partition("|")
    number, _, start = identity.partition("|")
    if not machine or machine != _machine():
        return False
    try:
        return _start_of_process(int(number)) != start
    except OSError:
        return False


class Leases:
    """Names that this process has taken, and keeps by signs of life.

    Args:
        table: the control table of leases, as in statements.
        url: the URL of the target, for a separate connection.
        token: distinguishes them from those of other processes.
    """

    def __init__(self, connection: Connection, table: str, url: str, token: str) -> None:
        self._connection = connection
        self._table = table
        self._url = url
        self._token = token
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def is_held(self, names: Sequence[str]) -> bool:
        """Whether any live process holds a name."""
        places = ", ".join("?" * len(names))
        query = f"SELECT process FROM {self._table} WHERE {BEATEN} AND name IN ({places})"
        rows = self._connection.rows(query, names)
        return any(not has_ended(process) for (process,) in rows)

    def is_mine(self, name: str) -> bool:
        query = f"SELECT 1 FROM {self._table} WHERE name = ? AND token = ?"
        return bool(self._connection.rows(query, [name, self._token]))

    def take(self, name: str) -> bool:
        """Take a name in a transaction that excludes others; return whether it was free."""
        return self.take_all([name])

    def take_all(self, names: Sequence[str]) -> bool:
        """Take several names, either all or none."""
        if self.is_held(names):
            return False
        connection = self._connection
        places = ", ".join("?" * len(names))
        connection.change(f"DELETE FROM {self._table} WHERE name IN ({places})", names)
        row = "SELECT ?, ?, ?, SYSDATE()"
        connection.change(
            f"INSERT INTO {self._table} {' UNION ALL '.join([row] * len(names))}",
            [value for name in names for value in (name, self._token, this_process())],
        )
        if self._thread is None:
            self._thread = threading.Thread(target=self._beat, name="leases", daemon=True)
            self._thread.start()
        return True

    def release(self, name: str) -> None:
        self._connection.change(
            f"DELETE FROM {self._table} WHERE name = ? AND token = ?", [name, self._token]
        )

    def _beat(self) -> None:
        """Give a sign of life, over a separate connection in case the other is in a transaction."""
        connection: Connection | None = None
        while not self._closed.wait(BEAT_SECONDS):
            try:
                connection = connection or connect(self._url, "target")
                connection.change(
                    f"UPDATE {self._table} SET beat_at = SYSDATE() WHERE token = ?", [self._token]
                )
            except (Error, PenstockError):
                if connection is not None:
                    connection.close()
                connection = None
        if connection is not None:
            connection.close()

    def close(self) -> None:
        """Release the names, so that others need not wait until they expire."""
        if self._thread is None or self._closed.is_set():
            return
        self._closed.set()
        with suppress(Error, PenstockError):
            self._connection.change(f"DELETE FROM {self._table} WHERE token = ?", [self._token])
