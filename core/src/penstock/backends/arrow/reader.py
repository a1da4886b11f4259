"""The rows of a Python process as a stream of record batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyarrow import fs

from penstock.backends.arrow.location import socket_of
from penstock.backends.arrow.scan import ROWS, RowsScan
from penstock.backends.parquet.files.footers import plain_schema
from penstock.backends.parquet.location import FILE, FilesLocation
from penstock.backends.parquet.reader import ParquetReader
from penstock.backends.shared.served_rows import served_schema
from penstock.model.extents import FilePart
from penstock.model.plans import Partition


class ArrowReader(ParquetReader):
    """A reader of the one partition, which has all rows."""

    def _located(self, url: str) -> FilesLocation:
        self._path = socket_of(url)
        return FilesLocation(FILE, (self._path,))

    def _parts(self, partition: Partition) -> Sequence[FilePart]:
        return [ROWS]

    def _scan(
        self, filesystem: fs.FileSystem, parts: Sequence[FilePart], stopped: Callable[[], bool]
    ) -> RowsScan:
        return RowsScan(self._path, plain_schema(served_schema(self._path)), stopped)
