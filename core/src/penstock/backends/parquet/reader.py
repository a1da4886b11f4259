"""A partition as a stream of record batches.

Whole files and parts of them are read directly; a partition with a condition, and a query, go
through DuckDB.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

import duckdb
import pyarrow as pa
from pyarrow import fs

from penstock.backends.duckdb.catalog.values import travelling
from penstock.backends.duckdb.dialect import DUCKDB, condition, ident
from penstock.backends.duckdb.session import hold
from penstock.backends.parquet.files import engine as reading
from penstock.backends.parquet.files.duckdb_scan import ScannedFiles
from penstock.backends.parquet.files.listing import ListedFile, list_files
from penstock.backends.parquet.files.scan import FileScan, whole_file
from penstock.backends.parquet.files.snapshot import schema_of
from penstock.backends.parquet.files.types import converted
from penstock.backends.parquet.location import FilesLocation, parse
from penstock.backends.parquet.storage.filesystems import file_system
from penstock.backends.shared.values.arrow import no_rows
from penstock.backends.shared.values.batch_reader import BatchReader
from penstock.backends.sql.rows.computed_columns import computed_rows
from penstock.model.extents import FilePart, Files, Whole
from penstock.model.plans import Partition
from penstock.model.tables import Located
from penstock.spec.worker_spec import WorkerSpec


class ParquetReader(BatchReader):
    """A reader of partitions from Parquet files."""

    def __init__(self, spec: WorkerSpec) -> None:
        super().__init__(spec)
        self._location = self._located(spec.source)
        self._listed: tuple[ListedFile, ...] | None = None
        self._schema: pa.Schema | None = None
        self._connection: duckdb.DuckDBPyConnection | None = None

    def _located(self, url: str) -> FilesLocation:
        return parse(url, "--source")

    def switch_run(self, spec: WorkerSpec) -> None:
        self._spec = spec
        self._listed = self._schema = None

    def batches(
        self, partition: Partition, stopped: Callable[[], bool]
    ) -> Iterator[pa.RecordBatch]:
        spec = self._spec
        # Created anew each time, since its credentials may be short-lived.
        filesystem = file_system(self._location, "source")
        parts = self._parts(partition)
        scan = self._scan(filesystem, parts, stopped)
        names = [pair.target for pair in spec.pairs]
        batches: Iterator[pa.RecordBatch]
        whole_rows = isinstance(partition.extent, Files) or (
            isinstance(partition.extent, Whole) and isinstance(spec.relation, Located)
        )
        computes = any(pair.expression for pair in spec.pairs)
        if whole_rows and spec.where is None and not computes:
            types = [scan.schema.field(pair.source).type for pair in spec.pairs]
            selected = scan.batches(parts, [pair.source for pair in spec.pairs])
            schema = pa.schema(list(zip(names, types, strict=True)))
            batches = (pa.RecordBatch.from_arrays(b.columns, schema=schema) for b in selected)
        else:
            schema, batches = self._selected(ScannedFiles.of(scan, parts), partition)
        first = True
        for batch in batches:
            first = False
            yield batch
        if first:
            yield no_rows(schema)

    def _scan(
        self, filesystem: fs.FileSystem, parts: Sequence[FilePart], stopped: Callable[[], bool]
    ) -> FileScan:
        return FileScan(filesystem, self._fields(filesystem, parts), stopped=stopped)

    def _parts(self, partition: Partition) -> Sequence[FilePart]:
        if isinstance(partition.extent, Files):
            return partition.extent.parts
        if self._listed is None or self._spec.snapshot is None:
            self._listed = self._listing()
        return [whole_file(file) for file in self._listed]

    def _listing(self) -> tuple[ListedFile, ...]:
        return reading.listed_as(self._location, self._spec.snapshot)

    def _fields(self, filesystem: fs.FileSystem, parts: Sequence[FilePart]) -> pa.Schema:
        if self._schema is None and self._spec.snapshot is not None:
            self._schema = schema_of(self._spec.snapshot)
        if self._schema is None:
            files = [ListedFile(part.path, part.size, part.version) for part in parts]
            if files[0].keys:
                # The type of a folder's column depends on all folders.
                self._listed = self._listed or list_files(self._location)
                files += self._listed
            FileScan(filesystem, pa.schema([])).check(parts[0])
            self._schema = reading.schema_of(filesystem, files)
        return self._schema

    def _selected(
        self, files: ScannedFiles, partition: Partition
    ) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """Return the rows that DuckDB selects, and their types."""
        spec = self._spec
        reading.check_names(files.scan.schema, "source")
        located = isinstance(spec.relation, Located)
        rows = reading.rows(spec.relation)
        # The choice of files is not a condition.
        extent = Whole() if isinstance(partition.extent, Files) else partition.extent
        connection = self._connection = reading.session(files, worker=True)
        chosen = condition(spec.where, extent)
        with reading.translated(files, str(spec.relation)):
            hold(connection, spec.session_values)
            rows, chosen = computed_rows(DUCKDB, rows, chosen, spec.pairs)
            description = connection.sql(f"SELECT * FROM {rows}")
            kinds = dict(zip(description.columns, description.types, strict=True))
            listed = ", ".join(
                f"{travelling(ident(pair.source), kinds[pair.source])} AS {ident(f'c{place}')}"
                for place, pair in enumerate(spec.pairs)
            )
            query = f"SELECT {listed} FROM {rows} WHERE {chosen}"
            reader = connection.sql(query).to_arrow_reader(self._batch_rows(files))
        types = [
            files.scan.schema.field(pair.source).type
            if located and not pair.expression
            else pa.uuid()
            if kinds[pair.source].id == "uuid"
            else part.type
            for pair, part in zip(spec.pairs, reader.schema, strict=True)
        ]
        schema = pa.schema(
            [(pair.target, type_) for pair, type_ in zip(spec.pairs, types, strict=True)]
        )

        def batches() -> Iterator[pa.RecordBatch]:
            with reading.translated(files, str(spec.relation), is_reading=True):
                for batch in reader:
                    arrays = [
                        converted(array, type_)
                        for array, type_ in zip(batch.columns, types, strict=True)
                    ]
                    yield pa.RecordBatch.from_arrays(arrays, schema=schema)
            connection.close()

        return schema, batches()

    def _batch_rows(self, files: ScannedFiles) -> int:
        """Return the batch size of the files, for the columns that are read in any case."""
        names = {pair.source for pair in self._spec.pairs if not pair.expression}
        if not isinstance(self._spec.relation, Located):
            names = set(files.schema.names)
        columns = [name for name in files.schema.names if name in names]
        return files.scan.batch_rows(files.parts[0], columns)

    def abandon(self) -> None:
        if self._ahead is not None:
            self._ahead.stop()
        if self._connection is not None:
            with suppress(duckdb.Error):  # it is already done
                self._connection.interrupt()
            self._connection = None
