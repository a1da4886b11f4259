"""Facts about files as a source, for planning and verification, from lists and footers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow.dataset as ds

from penstock.backends.api.facts import Checksum, SourceFile, TableStatistics
from penstock.backends.api.optional.cursors import SourceFiles
from penstock.backends.duckdb.catalog.facts import DuckCatalog
from penstock.backends.duckdb.dialect import condition
from penstock.backends.parquet.files import engine
from penstock.backends.parquet.files.duckdb_scan import ScannedFiles
from penstock.backends.parquet.files.footers import common_schema, footers_of, widened_columns
from penstock.backends.parquet.files.listing import ListedFile, fingerprint, list_files
from penstock.backends.parquet.files.scan import FileScan, whole_file
from penstock.backends.parquet.files.snapshot import fingerprint_of
from penstock.backends.parquet.location import identity, parse
from penstock.backends.parquet.storage.filesystems import file_system
from penstock.backends.shared.values.arrow import TRAIT
from penstock.backends.sql.rows.checksums import canonical_texts, read_digests
from penstock.backends.sql.rows.computed_columns import computed_rows
from penstock.errors import PlanningError, SnapshotLost
from penstock.model.extents import Extent, FilePart, Files, Key, Whole
from penstock.model.snapshots import Snapshot, SourceState
from penstock.model.table_model import TableDefinition
from penstock.model.tables import Column, ColumnPair, Located, NotCopied, Relation, TableRef
from penstock.spec.masking_keys import session_values

DIALECT = "arrow"
PART, SAMPLE = "source_part", "source_sample"
# Row groups, and rows of each, that show the distribution of a key's values.
SAMPLED_GROUPS, SAMPLED_ROWS = 100, 1000


class ParquetSource(DuckCatalog):
    """The catalog of Parquet files as a source."""

    # A list of files is as of now.
    settle_seconds = 0.0

    def __init__(self, url: str) -> None:
        self._location = parse(url, "--source")
        self._filesystem = file_system(self._location, "source")
        self._load(list_files(self._location))

    def _load(self, files: Sequence[ListedFile]) -> None:
        """Learn what the files contain."""
        self._listed = files
        self._footers = {footer.file.path: footer for footer in footers_of(self._filesystem, files)}
        footers = tuple(self._footers.values())
        self._schema = common_schema(footers)
        self._widened = tuple(widened_columns(footers, self._schema))
        self._scan = FileScan(self._filesystem, self._schema)
        self._begin()

    def _begin(self) -> None:
        """Let DuckDB see what the scan reads."""
        self._files = ScannedFiles.of(self._scan, [whole_file(file) for file in self._listed])
        self._part, self._sample = ScannedFiles.of(self._scan, []), ScannedFiles.of(self._scan, [])
        self._part.failures = self._sample.failures = self._files.failures
        session = engine.FileSession(self._files, "source")
        # Registered once: later the connection may be busy.
        session.connection.register(PART, self._part)
        session.connection.register(SAMPLE, self._sample)
        super().__init__(session, self._from)

    def _from(self, relation: Relation) -> str:
        engine.check_names(self._schema, "source")
        return engine.rows(relation)

    def close(self) -> None:
        self._session.close()

    def columns(self, relation: Relation) -> tuple[Column, ...]:
        if not isinstance(relation, Located):
            return super().columns(relation)
        return tuple(Column(part.name, str(part.type), part.nullable) for part in self._schema)

    def in_arrow(self, relation: Relation, columns: Sequence[Column]) -> tuple[Column, ...]:
        if not isinstance(relation, Located):
            return super().in_arrow(relation, columns)
        return tuple(
            replace(column, traits={**column.traits, TRAIT: self._schema.field(column.name).type})
            for column in columns
        )

    def definition(self, relation: Relation, *, partitioning: bool) -> TableDefinition:
        """Return an empty definition: files have nothing but columns."""
        return TableDefinition(DIALECT)

    def tables(self, include: Sequence[str], exclude: Sequence[str]) -> tuple[TableRef, ...]:
        return ()  # the URL refers to the rows of one table

    def schemas(self) -> tuple[str, ...]:
        return ()

    def find(self, name: str) -> TableRef | None:
        return None

    def other_objects(
        self, include: Sequence[str], exclude: Sequence[str]
    ) -> tuple[NotCopied, ...]:
        return ()

    # Moments

    def adopt(self, snapshot: Snapshot) -> None:
        listed = engine.listed_as(self._location, snapshot.token)
        if fingerprint(self._listed) != fingerprint_of(snapshot.token):
            self.close()
            self._load(listed)

    def state(self, relation: Relation) -> SourceState:
        now = fingerprint(list_files(self._location))
        return SourceState(identity(self._location), now, now, now)

    def identity(self, relation: Relation) -> Mapping[str, str]:
        return {"files": identity(self._location)}

    def source_files(self, relation: Relation) -> SourceFiles:
        if not isinstance(relation, Located):
            raise PlanningError("--incremental files: expected files, found a query over them")
        files = [footer.as_source_file() for footer in self._footers.values()]
        return SourceFiles(identity(self._location), files)

    # Sizes

    def statistics(self, relation: Relation, where: str | None) -> TableStatistics:
        files = [footer.as_source_file() for footer in self._footers.values()]
        size = sum(file.size for file in files)
        if not isinstance(relation, Located):
            self.check_where(relation, where)
            # DuckDB has no estimates for rows that it does not store.
            storage = f"a query over {len(files):,} Parquet files"
            return TableStatistics(
                None, size, 1.0, None, storage, None, sampled=False, notes=self._widened
            )
        rows = sum(footer.rows for footer in self._footers.values())
        groups = sum(len(file.groups) for file in files)
        if where is None:
            chosen = files
        else:
            self.check_where(relation, where)
            chosen = self._chosen(files, where)
        selected_rows = sum(count for file in chosen for count, _ in file.groups)
        storage = (
            f"{len(files):,} Parquet file{'' if len(files) == 1 else 's'} with {groups:,} row "
            f"group{'' if groups == 1 else 's'}"
        )
        if len(chosen) < len(files):
            storage += f", {len(files) - len(chosen):,} of them without rows for --where"
        return TableStatistics(
            rows=rows,
            bytes=size,
            selected=selected_rows / rows if rows else 1.0,
            blocks=None,
            storage=storage,
            default_key=None,
            files=tuple(chosen),
            notes=self._widened,
        )

    def _chosen(self, files: Sequence[SourceFile], where: str) -> list[SourceFile]:
        """Return the files that may hold rows for a condition, by statistics and folders.

        At least one: to select nothing is a valid copy, not an error.
        """
        expression = self._pushed(where)
        if expression is None:
            return list(files)
        selected = []
        for file in files:
            part = FilePart(file.path, file.size, file.version)
            groups = self._scan.groups(part, expression)
            if groups is None or groups:
                selected.append(file)
        return selected or list(files[:1])

    def _pushed(self, where: str) -> ds.Expression | None:
        """Return the part of a condition that DuckDB has the files test; None if unknown."""
        conditions = self._files.recorded_conditions = []
        try:
            self._session.fetch(
                f"SELECT 1 FROM {engine.SOURCE} WHERE {condition(where, Whole())}", "--where"
            )
        finally:
            self._files.recorded_conditions = None
        # A condition with a subquery may read the files more than once.
        return conditions[0] if len(conditions) == 1 else None

    # Rows

    def rows_of(self, relation: Relation, extent: Extent) -> str:
        if not isinstance(extent, Files):
            return super().rows_of(relation, extent)
        self._part.parts = extent.parts
        return PART

    def condition_of(self, relation: Relation, where: str | None, extent: Extent) -> str:
        return super().condition_of(
            relation, where, Whole() if isinstance(extent, Files) else extent
        )

    def sample(self, relation: Relation, key: Key) -> tuple[str, str] | None:
        if not isinstance(relation, Located):
            return None
        groups = [
            FilePart(footer.file.path, footer.file.size, footer.file.version, number, number + 1)
            for footer in self._footers.values()
            for number in range(len(footer.groups))
        ]
        if not groups:
            return None
        count = min(len(groups), SAMPLED_GROUPS)
        sampled = [groups[place * len(groups) // count] for place in range(count)]
        self._sample.parts, self._sample.head = sampled, SAMPLED_ROWS
        return SAMPLE, f"the first {SAMPLED_ROWS:,} rows of {count:,} of {len(groups):,} row groups"

    def checksum(
        self, relation: Relation, where: str | None, extent: Extent, pairs: Sequence[ColumnPair]
    ) -> Checksum:
        if (
            isinstance(relation, Located)
            and isinstance(extent, Whole | Files)
            and where is None
            and not pairs
        ):
            return Checksum(self._counted(extent), "0")
        return super().checksum(relation, where, extent, pairs)

    def row_digests(
        self,
        relation: Relation,
        where: str | None,
        extent: Extent,
        pairs: Sequence[ColumnPair],
        key: Sequence[str],
        only_keys: Sequence[str] = (),
    ) -> Iterator[tuple[str, str]]:
        # DuckDB's own cursors do not see registered objects, and the caller may ask other questions
        # while it reads.
        rows = self._from(relation)
        texts = canonical_texts(self._session, rows, pairs)
        files = self._files
        if isinstance(extent, Files):
            files = ScannedFiles.of(self._scan, extent.parts)
        chosen = self.condition_of(relation, where, extent)
        session = engine.FileSession(files, "source")
        session.hold(session_values(pairs))
        rows, chosen = computed_rows(session.dialect, rows, chosen, pairs)
        return read_digests(session, rows, chosen, texts, key, only_keys)

    def _counted(self, extent: Whole | Files) -> int:
        """Return the number of rows, from the footers."""
        if isinstance(extent, Whole):
            return sum(footer.rows for footer in self._footers.values())
        count = 0
        for part in extent.parts:
            footer = self._footers.get(part.path)
            if footer is None or footer.file.version != part.version:
                raise SnapshotLost(
                    f"source: {part.path} has changed since planning: expected version "
                    f"{part.version}, found {footer.file.version if footer else 'none'}"
                )
            count += sum(rows for rows, _ in footer.groups[part.lower : part.upper])
        return count
