"""One moment of a source: a database file that is held open for reading.

DuckDB lets many processes read a file, or one write it: while a reader has it open, nobody writes.
https://duckdb.org/docs/stable/connect/concurrency
"""

from __future__ import annotations

import secrets
from datetime import UTC, datetime

from duckdb import DuckDBPyConnection

from penstock.backends.duckdb.connection import connect_to_read
from penstock.backends.duckdb.location import SCHEME
from penstock.backends.shared import database_file
from penstock.errors import SnapshotLost
from penstock.model.snapshots import Snapshot

# Of queries in memory over files, which nobody can hold: known to this process alone.
_MOMENTS: set[str] = set()


def identity(path: str) -> str:
    """Equal: the same file, whatever it holds. Empty where there is none."""
    return database_file.identity(SCHEME, path)


def version(path: str) -> str:
    """Equal: nobody has written to the file, or to its write-ahead log."""
    return database_file.version(path, f"{path}.wal")


def now() -> str:
    return datetime.now(UTC).isoformat(sep=" ")


class OpenFile:
    """A session that keeps the file from being written."""

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._connection: DuckDBPyConnection | None = connect_to_read(path, "source")
        if path is None:
            token = f"memory:{secrets.token_hex(8)}"
            _MOMENTS.add(token)
        else:
            token = f"{path}:{version(path)}"
        self.snapshot = Snapshot(token, now())

    def alive(self) -> bool:
        """A file that was renamed over is another one."""
        return self._connection is not None and holds(self._path, self.snapshot.token)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        _MOMENTS.discard(self.snapshot.token)


def holds(path: str | None, token: str) -> bool:
    """Whether what is read now is what the token says."""
    return token in _MOMENTS if path is None else token == f"{path}:{version(path)}"


def check(path: str | None, token: str) -> None:
    """
    Raises:
        SnapshotLost: the file is another one by now, or files that a query reads may be.
    """
    if not holds(path, token):
        what = f"{path} was written to, or replaced" if path else "files may have been written to"
        raise SnapshotLost(f"source: {what} since the snapshot was taken; expected it as it was")
