"""Tables, views and queries of an SQLite file, as a source."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime

from penstock.backends.api.facts import TableStatistics
from penstock.backends.shared import database_file
from penstock.backends.shared.arrow import TRAIT
from penstock.backends.sql.definition import definition_of
from penstock.backends.sql.dialect import raw
from penstock.backends.sql.relations import read_columns
from penstock.backends.sql.source import SqlSource
from penstock.errors import PlanningError, SnapshotLost
from penstock.model.snapshots import Snapshot, SourceState
from penstock.model.tables import (
    Column,
    NotCopied,
    Query,
    Relation,
    TableDefinition,
    TableRef,
)

from .dialect import ARROW_TYPES, SQLITE
from .session import connect


def rows_of(relation: Relation) -> str:
    """An item of FROM. A statement that is no single query is none."""
    if isinstance(relation, Query):
        return f"{raw(relation.text)} AS query"
    assert isinstance(relation, TableRef)
    return SQLITE.table(relation)


def version(path: str) -> str:
    return database_file.version(path, f"{path}-wal")


def check_version(path: str, token: str) -> None:
    """
    Raises:
        SnapshotLost: somebody has written to the file since.
    """
    if version(path) != token:
        raise SnapshotLost(f"source: {path} was written to since the snapshot was taken")


def with_arrow(columns: Sequence[Column], side: str) -> tuple[Column, ...]:
    """The columns with the types in which their values travel.

    Raises:
        PlanningError: there is no such type for one.
    """
    for column in columns:
        if column.type not in ARROW_TYPES:
            raise PlanningError(
                f"{side}: column {column.name!r}: expected one of the types "
                f"{', '.join(ARROW_TYPES)}; found {column.type!r}"
            )
    return tuple(replace(c, traits={**c.traits, TRAIT: ARROW_TYPES[c.type]}) for c in columns)


class SqliteSource(SqlSource):
    settle_seconds = 0.0

    def __init__(self, path: str) -> None:
        self._path = path
        self._open = connect(path, "source", "ro")
        super().__init__(self._open, rows_of)

    def close(self) -> None:
        self._open.close()

    def parenthesized(self, query: str) -> str:
        return rows_of(Query(query))

    def columns(self, relation: Relation) -> tuple[Column, ...]:
        if isinstance(relation, TableRef):
            return read_columns(self._open, relation)
        return super().columns(relation)

    def in_arrow(self, relation: Relation, columns: Sequence[Column]) -> tuple[Column, ...]:
        return with_arrow(columns, "source")

    def definition(self, relation: Relation, *, partitioning: bool) -> TableDefinition:
        return definition_of("sqlite", self.columns(relation), (), ())

    def others(self, include: Sequence[str], exclude: Sequence[str]) -> tuple[NotCopied, ...]:
        return ()

    def statistics(self, relation: Relation, where: str | None) -> TableStatistics:
        self.check_where(relation, where)
        ((size,),) = self._open.fetch(
            "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size", "size"
        )
        return TableStatistics(
            rows=None,
            bytes=size,
            selected=1.0,
            blocks=None,
            storage=f"in a file of {size / 1e6:,.1f} MB",
            default_key=None,
            sampled=False,
        )

    # One moment: while somebody reads, nobody writes, unless the file has a write-ahead log.

    def state(self, relation: Relation) -> SourceState:
        seen = version(self._path)
        return SourceState(database_file.identity("sqlite", self._path), seen, seen, seen)

    def adopt(self, snapshot: Snapshot) -> None:
        check_version(self._path, snapshot.token)


class HeldFile:
    def __init__(self, path: str) -> None:
        self._path = path
        self._session = connect(path, "source", "ro")
        ((mode,),) = self._session.fetch("PRAGMA journal_mode", path)
        if mode == "wal":
            raise PlanningError(
                f"source: {path} has a write-ahead log, so it can be written to while it is read; "
                "expected --snapshot none, or PRAGMA journal_mode = delete"
            )
        self._session.run("BEGIN")
        self._session.fetch("SELECT count(*) FROM sqlite_master", path)
        self.snapshot = Snapshot(version(path), datetime.now(UTC).isoformat(sep=" "))

    def alive(self) -> bool:
        """A file that was renamed over is another one."""
        return version(self._path) == self.snapshot.token

    def close(self) -> None:
        with closing(self._session):
            pass
