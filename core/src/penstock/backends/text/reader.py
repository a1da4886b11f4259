"""A partition of text files as a stream of record batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from pyarrow import fs

from penstock.backends.api.worker import CSV, Block, Wait
from penstock.backends.parquet.files.listing import ListedFile
from penstock.backends.parquet.location import FilesLocation
from penstock.backends.parquet.reader import ParquetReader
from penstock.backends.parquet.storage.filesystems import file_system
from penstock.backends.shared.background import BufferedIterator
from penstock.backends.text.files.contents import find, why_parsed
from penstock.backends.text.files.scan import TextScan
from penstock.backends.text.files.snapshot import listed, schema_of
from penstock.backends.text.location import parse
from penstock.errors import Diagnosis, PermanentError
from penstock.model.extents import FilePart
from penstock.model.plans import Partition


class TextReader(ParquetReader):
    """A reader of partitions from text files."""

    def read(self, partition: Partition, wait: Wait) -> Iterator[tuple[Block, int, int]]:
        if self._spec.format != CSV:
            return super().read(partition, wait)
        return self._read_unchanged(partition, wait)

    def _read_unchanged(self, partition: Partition, wait: Wait) -> Iterator[tuple[Block, int, int]]:
        self.rows = 0
        pieces = BufferedIterator(lambda stopped: self._pieces(partition, stopped))
        self._ahead = pieces
        for piece, rows in pieces.take(wait):
            self.rows += rows
            yield piece, rows, len(piece)
            del piece

    def _pieces(
        self, partition: Partition, stopped: Callable[[], bool]
    ) -> Iterator[tuple[bytes, int]]:
        parts = self._parts(partition)
        scan = self._scan(file_system(self._location, "source"), parts, stopped)
        if reason := why_parsed(scan.schema):
            raise PermanentError(
                f"source: the files of {self._text} have changed since planning: their rows now "
                f"have to be parsed, because {reason}; start a new run",
                Diagnosis(side="source"),
            )
        return scan.pieces(parts)

    def _located(self, url: str) -> FilesLocation:
        self._text = parse(url, "--source")
        return self._text.files

    def _listing(self) -> tuple[ListedFile, ...]:
        return listed(self._text, self._spec.snapshot)

    def _scan(
        self, filesystem: fs.FileSystem, parts: Sequence[FilePart], stopped: Callable[[], bool]
    ) -> TextScan:
        options, snapshot = self._text.options, self._spec.snapshot
        if snapshot is not None and not options.schema:
            schema = schema_of(snapshot)
        else:
            schema = find(filesystem, self._listing(), options, "source").schema
        return TextScan(filesystem, schema, options, stopped=stopped)
