"""One moment of a source: while somebody reads, nobody writes."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.backends.shared import database_file
from penstock.backends.shared.database_file import HeldFile
from penstock.errors import PlanningError, SnapshotLost
from penstock.model.tables import Relation

from .session import connect


def version(path: str) -> str:
    return database_file.version(path, f"{path}-wal")


def check_version(path: str, token: str) -> None:
    """
    Raises:
        SnapshotLost: somebody has written to the file since.
    """
    if version(path) != token:
        raise SnapshotLost(f"source: {path} was written to since the snapshot was taken")


def hold_snapshot(path: str, relations: Sequence[Relation]) -> HeldFile:
    session = connect(path, "source", "ro")
    ((mode,),) = session.fetch("PRAGMA journal_mode", path)
    if mode == "wal":
        raise PlanningError(
            f"source: {path} has a write-ahead log, so it can be written to while it is read; "
            "expected --snapshot none, or PRAGMA journal_mode = delete"
        )
    session.run("BEGIN")
    session.fetch("SELECT count(*) FROM sqlite_master", path)
    return HeldFile(session, lambda: version(path))
