"""A snapshot of a source: while one process reads, none can write."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.backends.shared.database_file import FileVersions, HeldFile
from penstock.errors import PlanningError
from penstock.model.tables import Relation

from .session import connect

VERSIONS = FileVersions("sqlite", "-wal")


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
    return HeldFile(session, lambda: VERSIONS.version(path))
