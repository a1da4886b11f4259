"""What a dataset's files hold, for verification: DuckDB's SQL over some of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds

from penstock.backends.base import Checksum
from penstock.backends.duckdb.catalog import DuckCatalog
from penstock.backends.duckdb.connection import configure
from penstock.backends.parquet.errors import translated
from penstock.backends.parquet.filesystems import file_system
from penstock.backends.parquet.storage import Storage
from penstock.model import ColumnPair, Extent, Located, Relation, Whole

_NAME = "files"


class Comparing:
    """
    Parameters:
        schema: of the rows, with the columns that name the folders.
    """

    def __init__(self, storage: Storage, schema: pa.Schema, partition_by: Sequence[str]) -> None:
        self._storage = storage
        self._schema = schema
        self._folders = ds.partitioning(
            pa.schema([schema.field(name) for name in partition_by]), flavor="hive"
        )
        self._connection = configure(duckdb.connect(), worker=False)

    @cached_property
    def _file_system(self) -> pa.fs.FileSystem:
        return file_system(self._storage.location, "target")

    def _rows(self, paths: Sequence[str]) -> ds.Dataset:
        if not paths:
            return ds.dataset(self._schema.empty_table())
        root = self._storage.location.path
        return ds.dataset(
            [f"{root}/{path}" for path in paths],
            schema=self._schema,
            format="parquet",
            filesystem=self._file_system,
            partitioning=self._folders,
            partition_base_dir=root,
        )

    def _catalog(self, paths: Sequence[str]) -> DuckCatalog:
        self._connection.register(_NAME, self._rows(paths))
        return DuckCatalog(self._connection, _relation, "target")

    def checksum(
        self, paths: Sequence[str], where: str | None, extent: Extent, pairs: Sequence[ColumnPair]
    ) -> Checksum:
        with translated("target", str(self._storage)):
            if not pairs and where is None and isinstance(extent, Whole):
                return Checksum(self._rows(paths).count_rows(), "0")  # the footers tell
            return self._catalog(paths).checksum(Located(), where, extent, _mine(pairs))

    def row_digests(
        self,
        paths: Sequence[str],
        where: str | None,
        extent: Extent,
        pairs: Sequence[ColumnPair],
        key: Sequence[str],
        only: Sequence[str],
    ) -> Iterator[tuple[str, str]]:
        with translated("target", str(self._storage)):
            yield from self._catalog(paths).row_digests(
                Located(), where, extent, _mine(pairs), key, only
            )

    def check_condition(self, where: str | None, extent: Extent) -> None:
        """
        Raises:
            PlanningError: DuckDB cannot evaluate it on the columns.
        """
        self._catalog(()).checksum(Located(), where, extent, ())

    def close(self) -> None:
        self._connection.close()


def _relation(relation: Relation) -> str:
    return _NAME


def _mine(pairs: Sequence[ColumnPair]) -> list[ColumnPair]:
    """The target's columns, by the names that they have here."""
    return [replace(pair, source=pair.target) for pair in pairs]
