"""An SQLite file as a target: opened for a moment at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager

from penstock.backends.sql.one_file.database import OneFile
from penstock.model.tables import TableRef

from .dialect import SQLITE
from .session import SqliteSession, connect


class SqliteFile(OneFile):
    dialect = SQLITE

    def control_table(self, schema: str, name: str) -> TableRef:
        return TableRef("main", f"{schema}.{name}")

    @contextmanager
    def _opened(self, mode: str, begin: str) -> Iterator[SqliteSession]:
        opening = connect(self.path, "target", mode, self.patience)
        with closing(opening) as session, self.interruptible(session.connection):
            session.run(begin)
            yield session  # without a commit, closing it undoes everything

    def reading(self) -> AbstractContextManager[SqliteSession]:
        return self._opened("ro", "BEGIN")

    def writing(self) -> AbstractContextManager[SqliteSession]:
        return self._opened("rw", "BEGIN IMMEDIATE")
