"""Tables, views and queries of an SQLite file, as a source."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.backends.api.facts import TableStatistics
from penstock.backends.shared import database_file
from penstock.backends.sql.source import SqlSource
from penstock.model.snapshots import Snapshot, SourceState
from penstock.model.tables import Column, Relation

from .dialect import with_arrow
from .session import connect
from .snapshot import check_version, version


class SqliteSource(SqlSource):
    settle_seconds = 0.0

    def __init__(self, path: str) -> None:
        self._path = path
        session = connect(path, "source", "ro")
        self.close = session.close
        super().__init__(session, session.rows_of)

    def in_arrow(self, relation: Relation, columns: Sequence[Column]) -> tuple[Column, ...]:
        return with_arrow(columns, "source")

    def statistics(self, relation: Relation, where: str | None) -> TableStatistics:
        self.check_where(relation, where)
        ((size,),) = self._session.once(
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

    def state(self, relation: Relation) -> SourceState:
        seen = version(self._path)
        return SourceState(database_file.identity("sqlite", self._path), seen, seen, seen)

    def adopt(self, snapshot: Snapshot) -> None:
        check_version(self._path, snapshot.token)


open_source = SqliteSource
