"""How staged rows get into a table, for drivers that take rows one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.backends.shared.attempts.file_stage import FileStage
from penstock.backends.shared.values.row_batches import rows_of
from penstock.backends.sql.loads.loading import SqlLoading
from penstock.backends.sql.one_file.session import DriverSession


class RowLoading(SqlLoading[FileStage]):
    """A load that inserts staged rows as parameters of a statement."""

    as_texts: Sequence[Any] = ()
    """Arrow types whose values the driver takes as texts."""

    def insert_staged(self, stage: FileStage, table: str) -> int:
        assert isinstance(self._session, DriverSession)
        places = ", ".join(map(self._dialect.placeholder, range(1, len(self._names) + 1)))
        insert = f"INSERT INTO {table} ({self._listed}) VALUES ({places})"
        return sum(
            self._session.run_many(insert, rows_of(batch, self.as_texts))
            for batch in stage.batches()
        )
