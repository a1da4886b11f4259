"""DuckDB over files, in which `source` stands for the files of a URL."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import duckdb
import pyarrow as pa
from pyarrow import fs

from penstock.backends.duckdb.catalog.queries import subselect
from penstock.backends.duckdb.connection import configure
from penstock.backends.duckdb.errors import translate
from penstock.backends.duckdb.session import DuckSession, streamed
from penstock.backends.parquet.errors import DRIVER_ERRORS, from_driver
from penstock.backends.parquet.files.duckdb_scan import ScannedFiles
from penstock.backends.parquet.files.footers import key_fields, plain_schema, read_footers
from penstock.backends.parquet.files.listing import ListedFile, fingerprint, list_files
from penstock.backends.parquet.files.snapshot import fingerprint_of
from penstock.backends.parquet.location import FilesLocation
from penstock.backends.sql.session import Row
from penstock.errors import Diagnosis, PenstockError, PlanningError, SnapshotLost
from penstock.model.tables import Located, Query, Relation

SOURCE = "source"
"""The name of the files' rows in a query."""


def rows(relation: Relation) -> str:
    """Return an item of FROM."""
    if isinstance(relation, Query):
        return subselect(relation.text)
    assert isinstance(relation, Located)
    return SOURCE


def check_names(schema: pa.Schema, side: str) -> None:
    """Check that column names are distinct for DuckDB.

    Raises:
        PlanningError: DuckDB would confuse columns. It ignores the case of ASCII letters, and
            renames columns that are then equal:
            https://duckdb.org/docs/stable/sql/dialect/keywords_and_identifiers.
    """
    by_lower_case: dict[bytes, str] = {}
    for name in schema.names:
        first_spelling = by_lower_case.setdefault(name.encode().lower(), name)
        if first_spelling != name:
            raise PlanningError(
                f"{side}: columns {first_spelling!r} and {name!r} differ only in upper and "
                "lower case, which conditions, keys, queries and checksums of files ignore; "
                "rename one",
                Diagnosis(side=side),
            )


def session(files: ScannedFiles, *, worker: bool) -> duckdb.DuckDBPyConnection:
    """Open a session of DuckDB.

    Args:
        files: the files that `source` stands for.
        worker: as for `configure`.
    """
    connection = configure(duckdb.connect(), worker=worker)
    # In arbitrary order, DuckDB would gather a few large rows from many batches into one of 2048.
    connection.execute("SET preserve_insertion_order = true")
    connection.register(SOURCE, files)
    return connection


class FileSession(DuckSession):
    """A session over registered files, which no second session sees: a stream uses this one up."""

    def __init__(self, files: ScannedFiles, side: str) -> None:
        super().__init__(session(files, worker=False), side)
        self._files = files

    @contextmanager
    def planning(self, subject: str) -> Iterator[None]:
        with failing(self._files), super().planning(subject):
            yield

    def stream(self, query: str, subject: str) -> Iterator[Row]:
        with failing(self._files):
            yield from streamed(self.connection, query, self.side, subject, self._stored_values)


@contextmanager
def failing(files: ScannedFiles) -> Iterator[None]:
    """Raise the failure of a scan of the files in place of DuckDB's report of it."""
    files.failures.clear()
    try:
        yield
    except PenstockError as error:
        if files.failures:
            raise files.failures[0] from error
        raise


@contextmanager
def translated(files: ScannedFiles, subject: str, *, is_reading: bool = False) -> Iterator[None]:
    """Translate errors of DuckDB and of the files it reads; an error in a file takes precedence.

    Args:
        files: the files that DuckDB reads.
        subject: the relation, for the message.
        is_reading: whether the files are already being read, and may have failed.
    """
    if not is_reading:
        files.failures.clear()
    try:
        yield
    except (duckdb.Error, *DRIVER_ERRORS) as error:
        if files.failures:
            raise files.failures[0] from error
        if isinstance(error, duckdb.Error):
            raise translate(error, "source", subject) from error
        raise from_driver(error, "source", subject) from error


def listed_as(location: FilesLocation, token: str | None) -> tuple[ListedFile, ...]:
    """Return the files of a location.

    Args:
        location: where the files are.
        token: the snapshot that the files must match; None for the current files.

    Raises:
        SnapshotLost: the files have changed.
    """
    files = list_files(location)
    if token is not None and fingerprint_of(token) != fingerprint(files):
        raise SnapshotLost(
            f"source: the files of {location} have changed since planning: some were added, "
            "removed or rewritten"
        )
    return files


def schema_of(filesystem: fs.FileSystem, files: Sequence[ListedFile]) -> pa.Schema:
    """Return the schema of files that were found to have the same columns, from one of them."""
    (first,) = read_footers(filesystem, files[:1], "source")
    keys = [key for key in key_fields(files) if key.name not in first.schema.names]
    return pa.schema([*plain_schema(first.schema), *keys])
