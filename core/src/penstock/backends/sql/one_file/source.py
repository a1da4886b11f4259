"""Tables, views and queries of a database file as a source."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from penstock.backends.api.facts import TableStatistics
from penstock.backends.shared.database_file import FileVersions
from penstock.backends.shared.values.arrow import in_arrow
from penstock.backends.sql.one_file.session import DriverSession
from penstock.backends.sql.source import SqlSource
from penstock.model.snapshots import Snapshot, SourceState
from penstock.model.tables import Column, Relation


class FileSource(SqlSource):
    """The source in one file.

    Args:
        session: a session that reads the file.
    """

    # Writes are visible in the file at once.
    settle_seconds = 0.0
    versions: FileVersions
    arrow_types: Mapping[str, Any]
    """Arrow types, by the column types that can be copied."""

    def __init__(self, path: str, session: DriverSession) -> None:
        self._path = path
        self.close = session.close
        super().__init__(session, session.rows_of)

    def in_arrow(self, relation: Relation, columns: Sequence[Column]) -> tuple[Column, ...]:
        return in_arrow(columns, self.arrow_types, "source")

    def state(self, relation: Relation) -> SourceState:
        version = self.versions.version(self._path)
        return SourceState(self.versions.identity(self._path), version, version, version)

    def adopt(self, snapshot: Snapshot) -> None:
        self.versions.check(self._path, snapshot.token)

    def statistics(self, relation: Relation, where: str | None) -> TableStatistics:
        """Return the size of the whole file, since databases need not report more."""
        self.check_where(relation, where)
        size = os.path.getsize(self._path)
        return TableStatistics(
            rows=None,
            bytes=size,
            selected=1.0,
            blocks=None,
            storage=f"in a file of {size / 1e6:,.1f} MB",
            default_key=None,
            sampled=False,
        )
