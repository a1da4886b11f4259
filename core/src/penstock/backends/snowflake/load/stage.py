"""A stage: Parquet files of one attempt, in a folder of the control schema's stage.

A file is written to disk, and uploaded while the next one is written, so at most two exist. In the
modes that merge, a table next to them holds the rows.
"""

from __future__ import annotations

import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.backends.api.execution.attempt import Attempt
from penstock.backends.api.worker import Block, Wait
from penstock.backends.shared.attempts.transfer import Transfer
from penstock.backends.shared.background import compute
from penstock.backends.shared.values.arrow import Caster, schema_from_text
from penstock.backends.shared.values.hex_values import uuid_texts
from penstock.backends.shared.values.row_groups import COMPRESSION, RowGroups
from penstock.backends.snowflake.catalog.names import swapped
from penstock.backends.snowflake.connection import Error
from penstock.backends.snowflake.errors import translated
from penstock.backends.snowflake.load.leases import has_ended, this_process
from penstock.backends.snowflake.records import SnowflakeRecords
from penstock.backends.sql.server.writer import ServerStage
from penstock.errors import Diagnosis, PermanentError
from penstock.spec.modes import Entry

# Snowflake loads files in parallel, and recommends 100 to 250 MB per file:
# https://docs.snowflake.com/en/user-guide/data-load-considerations-prepare
FILE_BYTES = 160 << 20
_FORMAT = (
    "FILE_FORMAT = (TYPE = PARQUET USE_LOGICAL_TYPE = TRUE BINARY_AS_TEXT = FALSE)"
    " MATCH_BY_COLUMN_NAME = CASE_SENSITIVE ON_ERROR = ABORT_STATEMENT"
)
_LOADED = 3
"""The column of COPY INTO's result with the number of rows loaded from a file."""


_FOLDER, _OWNER = "penstock-stage-", "process"
"""Folders for files being uploaded, and the file in each that names its owner."""


def new_folder() -> Path:
    """Return a new folder of this process; remove those of killed processes on this machine."""
    for owner in Path(tempfile.gettempdir()).glob(f"{_FOLDER}*/{_OWNER}"):
        with suppress(OSError):
            if has_ended(owner.read_text(encoding="utf-8")):
                shutil.rmtree(owner.parent, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=_FOLDER))
    (folder / _OWNER).write_text(this_process(), encoding="utf-8")
    return folder


class UploadStage(ServerStage[SnowflakeRecords]):
    """See `Stage`."""

    beat_seconds = 2.0

    def __init__(self, records: SnowflakeRecords, attempt: Attempt, token: str) -> None:
        spec = attempt.spec
        super().__init__(records, attempt, token)
        schema = schema_from_text(spec.schema)
        self._caster = Caster(schema, self._subject)
        self._schema = pa.schema(
            pa.field(swapped(field.name), pa.string() if field.type == pa.uuid() else field.type)
            for field in schema
        )
        self._folder = new_folder()
        self._groups = RowGroups()
        self._most = spec.writing.get("file_size") or FILE_BYTES
        self._writer: Any = None
        self._file = self._folder
        self._files = 0
        self._transfer = Transfer()
        self.rows = 0
        self.fileno = self._transfer.fileno
        self.check = self._transfer.check

    @property
    def folder(self) -> str:
        """The folder's name in statements."""
        return f"{self._records.files}/{self._token}/"

    @property
    def table(self) -> str:
        """The table that holds the staged rows, in the modes that merge them."""
        return self._records.stage_table(self._token)

    # As a stream

    def write(self, block: Block, wait: Wait) -> None:
        batch = self._caster.cast(block)
        self.rows += batch.num_rows
        columns = [
            uuid_texts(array).cast(pa.string()) if array.type == pa.uuid() else array
            for array in batch.columns
        ]
        self._groups.add(pa.RecordBatch.from_arrays(columns, schema=self._schema))
        for group in self._groups.full():
            self._write_group(group, wait)
        self.beat()

    def _write_group(self, group: pa.Table, wait: Wait) -> None:
        if self._writer is None:
            self._file = self._folder / f"{self._files:05}.parquet"
            self._writer = pq.ParquetWriter(self._file, self._schema, compression=COMPRESSION)
        self._writer.write_table(group, row_group_size=group.num_rows)
        if self._file.stat().st_size >= self._most:
            self._end_file(wait)

    def _end_file(self, wait: Wait) -> None:
        self._writer.close()
        self._writer, file = None, self._file
        self._files += 1
        # One after the other: a connection uploads the parts of a file in parallel.
        self._transfer.finish(wait)
        self._transfer.submit(lambda: self._send(file), wait)

    def _send(self, file: Path) -> None:
        with translated("target", "stage"):
            self._records.connection.put(file, self.folder)
        file.unlink()

    def end(self, wait: Wait) -> int:
        for group in self._groups.remaining():
            self._write_group(group, wait)
        if self._writer is not None:
            self._end_file(wait)
        self._transfer.finish(wait)
        if self._attempt.spec.load_mode.entry is Entry.BY_KEY:
            compute(self._fill_table, "target", wait, self._records.connection.interrupt)
        return self.rows

    def _fill_table(self) -> None:
        """Fill the table before the transaction, which creating a table would end."""
        spec, session = self._attempt.spec, self._records.session
        listed = ", ".join(session.dialect.ident(pair.target) for pair in spec.pairs)
        with translated("target", "stage"):
            session.run(
                f"CREATE OR REPLACE TRANSIENT TABLE {self.table} AS SELECT {listed}"
                f" FROM {session.table(spec.target_table)} LIMIT 0"
            )
            self.copy_into(self.table)

    def copy_into(self, table: str) -> int:
        """Load the files into a table; return the number of rows.

        Raises:
            PermanentError: some rows are missing.
        """
        count = 0
        if self._files:
            files = self._records.connection.rows(f"COPY INTO {table} FROM {self.folder} {_FORMAT}")
            count = sum(int(row[_LOADED]) for row in files if len(row) > _LOADED)
        if count != self.rows:
            raise PermanentError(
                f"target: {self._attempt.spec.target_table}: expected to load {self.rows:,} rows, "
                f"loaded {count:,}",
                Diagnosis(side="target"),
            )
        return count

    # As a stage

    def remove(self) -> None:
        self._transfer.close()
        shutil.rmtree(self._folder, ignore_errors=True)
        with suppress(Error):
            self._records.drop_stage(self._token)
