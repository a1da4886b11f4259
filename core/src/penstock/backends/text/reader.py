"""A partition of text files as a stream of record batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyarrow import fs

from penstock.backends.parquet.files.listing import ListedFile
from penstock.backends.parquet.files.scan import FileScan
from penstock.backends.parquet.location import FilesLocation
from penstock.backends.parquet.reader import ParquetReader
from penstock.backends.text.files.contents import find
from penstock.backends.text.files.scan import TextScan
from penstock.backends.text.files.snapshot import listed, schema_of
from penstock.backends.text.location import parse
from penstock.model.extents import FilePart


class TextReader(ParquetReader):
    """A reader of partitions from text files."""

    def _located(self, url: str) -> FilesLocation:
        self._text = parse(url, "--source")
        return self._text.files

    def _listing(self) -> tuple[ListedFile, ...]:
        return listed(self._text, self._spec.snapshot)

    def _scan(
        self, filesystem: fs.FileSystem, parts: Sequence[FilePart], stopped: Callable[[], bool]
    ) -> FileScan:
        options, snapshot = self._text.options, self._spec.snapshot
        if snapshot is not None:
            schema = schema_of(snapshot)
        else:
            schema = find(filesystem, self._listing(), options, "source").schema
        return TextScan(filesystem, schema, options, stopped=stopped)
