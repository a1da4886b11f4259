"""What a dataset's files hold, for verification: DuckDB's SQL over some of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import cached_property

import duckdb
import pyarrow as pa
from pyarrow import fs

from penstock.backends.api.facts import Checksum
from penstock.backends.duckdb.catalog.conditions import condition
from penstock.backends.duckdb.catalog.facts import DuckCatalog, session_digests
from penstock.backends.parquet.files import engine as reading
from penstock.backends.parquet.files.footers import plain_schema, read_footers
from penstock.backends.parquet.files.listing import ListedFile, list_files
from penstock.backends.parquet.files.scan import FileScan, ScannedFiles, whole_file
from penstock.backends.parquet.storage.filesystems import file_system
from penstock.backends.parquet.storage.storage import Storage
from penstock.model.extents import Extent, Whole
from penstock.model.tables import ColumnPair, Located


class Comparing:
    """
    Parameters:
        schema: of the rows, with the columns that name the folders.
    """

    def __init__(self, storage: Storage, schema: pa.Schema) -> None:
        self._location = storage.location
        self._schema = plain_schema(schema)

    @cached_property
    def _file_system(self) -> fs.FileSystem:
        return file_system(self._location, "target")

    @cached_property
    def _listed(self) -> dict[str, ListedFile]:
        """By path within the dataset."""
        prefix = f"{self._location.path}/"
        return {
            file.path.removeprefix(prefix): file for file in list_files(self._location, "target")
        }

    def _files(self, paths: Sequence[str]) -> list[ListedFile]:
        return [self._listed[path] for path in paths] if paths else []

    def checksum(
        self, paths: Sequence[str], where: str | None, extent: Extent, pairs: Sequence[ColumnPair]
    ) -> Checksum:
        """
        Parameters:
            paths: of files that are there.
        """
        if not pairs and where is None and isinstance(extent, Whole):
            footers = read_footers(self._file_system, self._files(paths), "target")
            return Checksum(sum(footer.rows for footer in footers), "0")
        with closing(self._session(paths)) as session:
            catalog = DuckCatalog(session, reading.rows, "target")
            return catalog.checksum(Located(), where, extent, _mine(pairs))

    def row_digests(
        self,
        paths: Sequence[str],
        where: str | None,
        extent: Extent,
        pairs: Sequence[ColumnPair],
        key: Sequence[str],
        only: Sequence[str],
    ) -> Iterator[tuple[str, str]]:
        # A session of its own: the caller may ask other things while it reads.
        session = self._session(paths)
        return _Files(session, reading.rows, "target").digests(where, extent, pairs, key, only)

    def _session(self, paths: Sequence[str]) -> duckdb.DuckDBPyConnection:
        reading.check_names(self._schema, "target")
        scan = FileScan(self._file_system, self._schema, "target")
        parts = [whole_file(file) for file in self._files(paths)]
        return reading.session(ScannedFiles.of(scan, parts), worker=False)

    def check_condition(self, where: str | None, extent: Extent) -> None:
        """
        Raises:
            PlanningError: DuckDB cannot evaluate it on the columns.
        """
        with closing(self._session(())) as session:
            DuckCatalog(session, reading.rows, "target").checksum(Located(), where, extent, ())


class _Files(DuckCatalog):
    def digests(
        self,
        where: str | None,
        extent: Extent,
        pairs: Sequence[ColumnPair],
        key: Sequence[str],
        only: Sequence[str],
    ) -> Iterator[tuple[str, str]]:
        """As `row_digests`; ends the session."""
        texts = self._texts(Located(), _mine(pairs))
        chosen = condition(where, extent)
        return session_digests(self._connection, "target", reading.SOURCE, chosen, texts, key, only)


def _mine(pairs: Sequence[ColumnPair]) -> list[ColumnPair]:
    """The target's columns, by the names that they have here."""
    return [replace(pair, source=pair.target) for pair in pairs]
