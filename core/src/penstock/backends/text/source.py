"""Facts about text files as a source, from reading them once, unless all values are texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from penstock.backends.api.facts import SourceFile, TableStatistics
from penstock.backends.api.optional.texts import GIVEN
from penstock.backends.api.worker import CSV
from penstock.backends.parquet.files.listing import ListedFile, fingerprint
from penstock.backends.parquet.files.scan import whole_file
from penstock.backends.parquet.source import SAMPLE, ParquetSource
from penstock.backends.parquet.storage.filesystems import file_system
from penstock.backends.text.files.scan import TextScan
from penstock.backends.text.files.snapshot import contents_of, listed, schema_of, token_of
from penstock.backends.text.location import identity, parse
from penstock.model.extents import Files, Key, Whole
from penstock.model.snapshots import Snapshot, SourceState
from penstock.model.tables import Column, Located, Relation

# Bytes per row, if rows were not counted.
GUESSED_WIDTH = 100
# Files, and rows of each, that show the distribution of a key's values.
SAMPLED_FILES, SAMPLED_ROWS = 100, 10_000


class TextSource(ParquetSource):
    """The catalog of text files as a source."""

    def __init__(self, url: str) -> None:
        self._text = parse(url, "--source")
        self._location = self._text.files
        self._filesystem = file_system(self._location, "source")
        self._load(listed(self._text))

    def _load(self, files: Sequence[ListedFile]) -> None:
        self._listed = tuple(files)
        contents = contents_of(self._text, self._listed)
        self._schema, self._counts = contents.schema, contents.rows
        self._parsed = contents.parsed
        self._scan = TextScan(self._filesystem, self._schema, self._text.options)
        self._begin()

    def in_arrow(self, relation: Relation, columns: Sequence[Column]) -> tuple[Column, ...]:
        columns = super().in_arrow(relation, columns)
        if not isinstance(relation, Located):
            return columns
        traits = {CSV: self._parsed, GIVEN: self._text.options.schema}
        return tuple(replace(column, traits={**column.traits, **traits}) for column in columns)

    # Moments

    def adopt(self, snapshot: Snapshot) -> None:
        files = listed(self._text, snapshot.token)
        given = self._text.options.schema
        ours = token_of(tuple(self._listed), schema_of(snapshot.token) if given else self._schema)
        if ours != snapshot.token:
            self.close()
            self._load(files)

    def state(self, relation: Relation) -> SourceState:
        now = fingerprint(listed(self._text))
        return SourceState(identity(self._text), now, now, now)

    # Sizes

    def statistics(self, relation: Relation, where: str | None) -> TableStatistics:
        self.check_where(relation, where)
        files = tuple(self._source_file(file) for file in self._listed)
        size = sum(file.size for file in files)
        counted = None if self._counts is None else sum(self._counts.values())
        located = isinstance(relation, Located)
        storage = f"{len(files):,} text file{'' if len(files) == 1 else 's'}"
        return TableStatistics(
            rows=counted if located else None,
            bytes=size,
            selected=1.0,
            blocks=None,
            storage=storage if located else f"a query over {storage}",
            default_key=None,
            files=files if located else (),
            sampled=located,
        )

    def _source_file(self, file: ListedFile) -> SourceFile:
        rows = file.size // GUESSED_WIDTH if self._counts is None else self._counts[file.path]
        # It cannot be partitioned: only the preceding quotes show where a row begins.
        return SourceFile(file.path, file.size, file.version, ((rows, file.size),))

    def sample(self, relation: Relation, key: Key) -> tuple[str, str] | None:
        if not isinstance(relation, Located):
            return None
        count = min(len(self._listed), SAMPLED_FILES)
        sampled = [self._listed[place * len(self._listed) // count] for place in range(count)]
        self._sample.parts, self._sample.head = [whole_file(file) for file in sampled], SAMPLED_ROWS
        return SAMPLE, f"the first {SAMPLED_ROWS:,} rows of {count:,} files"

    def _counted(self, extent: Whole | Files) -> int:
        parts = extent.parts if isinstance(extent, Files) else map(whole_file, self._listed)
        return sum(
            batch.num_rows for batch in self._scan.batches(tuple(parts), self._schema.names[:1])
        )
