"""One moment of a source: a database file held open for reading.

DuckDB lets many processes read a file, or one write it: while a reader has it open, no process can
write. https://duckdb.org/docs/stable/connect/concurrency
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence

from duckdb import DuckDBPyConnection

from penstock.backends.duckdb.connection import connect_to_read
from penstock.backends.duckdb.location import SCHEME
from penstock.backends.shared.database_file import FileVersions, HeldFile
from penstock.errors import SnapshotLost
from penstock.model.tables import Relation

# For queries in memory over files, which cannot be held: known only to this process.
_MOMENTS: set[str] = set()
VERSIONS = FileVersions(SCHEME, ".wal")


def hold_snapshot(path: str | None, relations: Sequence[Relation]) -> HeldFile:
    """Hold the database file open, so that no process can write to it.

    Args:
        path: the file; None for a database in memory.
        relations: the relations to read, which make no difference.
    """
    connection = connect_to_read(path, "source")
    if path is not None:
        return HeldFile(connection, lambda: f"{path}:{VERSIONS.version(path)}")
    token = f"memory:{secrets.token_hex(8)}"
    return HeldMoment(connection, lambda: token)


class HeldMoment(HeldFile):
    """A session in memory. It does not prevent writes to the files that its queries read."""

    def __init__(self, connection: DuckDBPyConnection, version: Callable[[], str]) -> None:
        super().__init__(connection, version)
        _MOMENTS.add(self.snapshot.token)

    def close(self) -> None:
        super().close()
        _MOMENTS.discard(self.snapshot.token)


def check(path: str | None, token: str) -> None:
    """Check that the source is unchanged.

    Raises:
        SnapshotLost: the file has changed, or files that a query reads may have.
    """
    if not (token in _MOMENTS if path is None else token == f"{path}:{VERSIONS.version(path)}"):
        what = f"{path} was changed or replaced" if path else "the query's files may have changed"
        raise SnapshotLost(f"source: {what} after the snapshot was taken")
