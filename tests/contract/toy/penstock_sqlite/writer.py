"""A partition is staged beside the file, then loaded in one transaction with its record."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from penstock.backends.shared.attempts.file_stage import FileStage
from penstock.backends.shared.attempts.staged import StagedWriter
from penstock.backends.sql.one_file.loading import RowLoading
from penstock.backends.sql.one_file.writer import FileHooks
from penstock.errors import PermanentError
from penstock.spec.worker_spec import WorkerSpec

from .session import SqliteFile


def open_writer(path: str, spec: WorkerSpec) -> StagedWriter:
    database = SqliteFile(path, spec.stall_timeout)
    return StagedWriter(spec, FileHooks(database, SqliteStage, Loading))


class SqliteStage(FileStage):
    def check_values(self, batch: pa.RecordBatch, rows_before: int) -> None:
        """Check values that SQLite would change.

        Raises:
            PermanentError: SQLite would keep a NaN as NULL.
        """
        for column in batch.columns:
            if column.type == pa.float64() and pc.any(pc.is_nan(column)).as_py():
                raise PermanentError(
                    f"{self.subject}: expected numbers, found NaN, which SQLite cannot hold"
                )


class Loading(RowLoading):
    as_texts = (pa.date32(),)
