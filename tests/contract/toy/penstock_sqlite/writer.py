"""A partition is staged beside the file, then loaded in one transaction with its record."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.backends.shared.file_stage import FileStage
from penstock.backends.shared.staged import StagedWriter
from penstock.backends.sql.loading import SqlLoading
from penstock.backends.sql.one_file.writer import FileHooks
from penstock.errors import PermanentError
from penstock.spec.worker_spec import WorkerSpec

from .database import SqliteFile
from .session import SqliteSession


def open_writer(path: str, spec: WorkerSpec) -> StagedWriter:
    database = SqliteFile(path, spec.stall_timeout)
    return StagedWriter(spec, FileHooks(database, SqliteStage, Loading))


class SqliteStage(FileStage):
    def check_values(self, batch: pa.RecordBatch, passed: int) -> None:
        """
        Raises:
            PermanentError: SQLite would keep a NaN as NULL.
        """
        for column in batch.columns:
            if column.type == pa.float64() and pc.any(pc.is_nan(column)).as_py():
                raise PermanentError(
                    f"{self.subject}: expected numbers, found NaN, which SQLite cannot hold"
                )


class Loading(SqlLoading[FileStage]):
    def insert_staged(self, stage: FileStage, table: str) -> int:
        assert isinstance(self._session, SqliteSession)
        places = ", ".join("?" for _ in self._names)
        insert = f"INSERT INTO {table} ({self._listed}) VALUES ({places})"
        return sum(
            self._session.run_many(insert, zip(*map(_values, batch.columns), strict=True))
            for batch in stage.batches()
        )


def _values(column: pa.Array) -> list[Any]:
    if column.type == pa.date32():
        column = column.cast(pa.string())
    return list(column.to_pylist())
