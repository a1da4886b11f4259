"""The content of a dataset's files, for verification: DuckDB's SQL over some of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import cached_property

import pyarrow as pa
from pyarrow import fs

from penstock.backends.api.facts import Checksum
from penstock.backends.duckdb.dialect import condition
from penstock.backends.parquet.files import engine
from penstock.backends.parquet.files.duckdb_scan import ScannedFiles
from penstock.backends.parquet.files.footers import plain_schema, read_footers
from penstock.backends.parquet.files.listing import ListedFile, list_files
from penstock.backends.parquet.files.scan import FileScan, whole_file
from penstock.backends.parquet.storage.filesystems import file_system
from penstock.backends.parquet.storage.storage import Storage
from penstock.backends.sql.rows.checksums import (
    as_loaded,
    canonical_texts,
    read_checksum,
    read_digests,
)
from penstock.model.extents import Extent, Whole
from penstock.model.tables import ColumnPair


class Comparing:
    """A comparison over one dataset.

    Args:
        schema: the schema of the rows, including the columns in folder names.
    """

    def __init__(self, storage: Storage, schema: pa.Schema) -> None:
        self._location = storage.location
        self._schema = plain_schema(schema)

    @cached_property
    def _file_system(self) -> fs.FileSystem:
        return file_system(self._location, "target")

    @cached_property
    def _listed(self) -> dict[str, ListedFile]:
        """Return the files by path within the dataset."""
        prefix = f"{self._location.path}/"
        return {
            file.path.removeprefix(prefix): file for file in list_files(self._location, "target")
        }

    def _files(self, paths: Sequence[str]) -> list[ListedFile]:
        return [self._listed[path] for path in paths] if paths else []

    def checksum(
        self, paths: Sequence[str], where: str | None, extent: Extent, pairs: Sequence[ColumnPair]
    ) -> Checksum:
        """Compute the checksum of some files.

        Args:
            paths: the paths of existing files.
            where: the run's condition; None for all rows.
            extent: the part of the rows.
            pairs: the columns to compare; empty to count rows only.
        """
        if not pairs and where is None and isinstance(extent, Whole):
            return Checksum(self._count(paths), "0")
        session = self._session(paths)
        with closing(session.connection):
            texts = canonical_texts(session, engine.SOURCE, as_loaded(pairs))
            return read_checksum(session, engine.SOURCE, condition(where, extent), texts)

    def _count(self, paths: Sequence[str]) -> int:
        footers = read_footers(self._file_system, self._files(paths), "target")
        return sum(footer.rows for footer in footers)

    def row_digests(
        self,
        paths: Sequence[str],
        where: str | None,
        extent: Extent,
        pairs: Sequence[ColumnPair],
        key: Sequence[str],
        only_keys: Sequence[str],
    ) -> Iterator[tuple[str, str]]:
        """Yield the keys and digests of the rows of some files, as text.

        Args:
            paths: the paths of existing files.
            where: the run's condition; None for all rows.
            extent: the part of the rows.
            pairs: the columns to compare.
            key: the columns that identify a row.
            only_keys: the keys of the rows to return, as text; empty for all.
        """
        # A separate session: the caller may ask other questions while it reads.
        session = self._session(paths)
        texts = canonical_texts(session, engine.SOURCE, as_loaded(pairs))
        return read_digests(session, engine.SOURCE, condition(where, extent), texts, key, only_keys)

    def _session(self, paths: Sequence[str]) -> engine.FileSession:
        engine.check_names(self._schema, "target")
        parts = [whole_file(file) for file in self._files(paths)]
        return engine.FileSession(ScannedFiles.of(self._scan(), parts), "target")

    def _scan(self) -> FileScan:
        return FileScan(self._file_system, self._schema, "target")

    def check_condition(self, where: str | None, extent: Extent) -> None:
        """Check that a condition can be evaluated.

        Raises:
            PlanningError: DuckDB cannot evaluate it on the columns.
        """
        session = self._session(())
        with closing(session.connection):
            read_checksum(session, engine.SOURCE, condition(where, extent), {})
