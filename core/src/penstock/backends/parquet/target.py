"""A dataset of Parquet files as a target: checked before any change, compared afterwards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from penstock.backends.api.facts import Checksum, Fit, LoadRequest
from penstock.backends.parquet.control import FolderPresence, folder_control
from penstock.backends.parquet.files.comparison import Comparing
from penstock.backends.parquet.load import load_plan, manifest
from penstock.backends.parquet.load.fence import MANIFEST, replaces_files
from penstock.backends.parquet.load.fitting import fit_columns
from penstock.backends.parquet.load.manifest import EVERYTHING, Manifest, selections
from penstock.backends.parquet.location import identity
from penstock.backends.parquet.storage.storage import Storage, open_storage
from penstock.backends.shared.records.control_store import RecordedRuns
from penstock.backends.shared.values.arrow import schema_from_text
from penstock.errors import PlanningError
from penstock.model.extents import Extent, Key, Whole
from penstock.model.plans import LoadPlan
from penstock.model.records import CommitRecord
from penstock.model.table_model import TableDefinition
from penstock.model.tables import Column, ColumnPair, TableRef
from penstock.spec.modes import Mode, Table, mode_of


class ParquetTarget:
    """The catalog of a Parquet target.

    Args:
        url: the URL of the folder that is the dataset.
    """

    def __init__(self, url: str, control_schema: str) -> None:
        self._storage = self._opened(url, control_schema)
        self._presence = FolderPresence(self._storage)
        self.control = self._controlled()

    def _opened(self, url: str, control_schema: str) -> Storage:
        return open_storage(url, control_schema)

    def _controlled(self) -> RecordedRuns:
        return folder_control(self._storage, self._presence)

    def close(self) -> None:
        self._presence.close()

    def _manifest(self) -> Manifest:
        """Return the manifest.

        Raises:
            PlanningError: the manifest does not exist.
        """
        current = manifest.read(self._storage.documents)
        if not current.schema:
            raise PlanningError(f"target: {self._storage}: expected a dataset, found none")
        return current

    def schemas(self) -> tuple[str, ...]:
        return ()

    def find(self, name: str) -> TableRef | None:
        return None

    def columns(self, table: TableRef) -> tuple[Column, ...]:
        return load_plan.columns_of(schema_from_text(self._manifest().schema))

    def identity(self, table: TableRef) -> str:
        return identity(self._storage.location)

    def creates_table(self, table: TableRef, mode: Mode) -> bool:
        return mode.table is Table.RECREATED or not manifest.read(self._storage.documents).files

    def defined_columns(
        self,
        table: TableRef,
        definition: TableDefinition,
        columns: Sequence[Column],
        types: Mapping[str, str],
    ) -> tuple[Column, ...]:
        return load_plan.defined_columns(columns, types, self._storage.format)

    def fit(self, source: Sequence[Column], target: Sequence[Column]) -> list[Fit]:
        return fit_columns(source, target)

    def check_writable(self, table: TableRef, mode: Mode, columns: Sequence[str]) -> None:
        load_plan.check_writable(self._storage)

    def plan_load(self, request: LoadRequest) -> LoadPlan:
        return load_plan.plan_load(self._storage, request)

    def shares_order(self, table: TableRef, key: Key, collation: str) -> bool:
        return False

    def check_condition(self, table: TableRef, where: str | None, extent: Extent) -> None:
        self._comparing().check_condition(where, extent)

    def _comparing(self) -> Comparing:
        return Comparing(self._storage, schema_from_text(self._manifest().schema))

    def checksum(
        self, table: TableRef, where: str | None, extent: Extent, pairs: Sequence[ColumnPair]
    ) -> Checksum:
        visible = sorted(self._storage.uploads.visible())
        return self._comparing().checksum(visible, where, extent, pairs)

    def checksums(
        self,
        table: TableRef,
        where: str | None,
        records: Sequence[CommitRecord],
        pairs: Sequence[ColumnPair],
        *,
        digest_others: bool,
    ) -> Mapping[str, Checksum] | None:
        """Return the checksums of partitions, whose rows are in separate files.

        Files of another selection than the run's, and files that the run will replace, do not count
        as others.

        Args:
            table: the dataset.
            where: the run's condition.
            records: the commit records of the partitions.
            pairs: the columns to compare; empty to count rows only.
            digest_others: whether to include the rows that no record covers, under the empty id.
        """
        comparing = self._comparing()
        visible = set(self._storage.uploads.visible())
        checksums = {
            record.partition_id: comparing.checksum(
                [path for path in record.files if path in visible], None, Whole(), pairs
            )
            for record in records
        }
        if digest_others:
            paths = self._other_files(records, visible)
            checksums[""] = comparing.checksum(sorted(paths), None, Whole(), pairs)
        return checksums

    def _other_files(self, records: Sequence[CommitRecord], visible: set[str]) -> set[str]:
        """Return visible files of other runs, if this run's mode should have removed them."""
        paths = visible.difference(*(record.files for record in records))
        run_id = records[0].transaction if records else ""
        run = self.control.runs.find(run_id) if run_id else None
        if run is None:
            return paths
        mode = mode_of(run.spec)
        if mode.empties_before:
            return paths
        if not replaces_files(mode) or MANIFEST not in self.control.steps.done([run_id])[run_id]:
            return set()
        mine = list(selections(run.spec, run.plan).values())
        if EVERYTHING in mine:
            return paths
        listed = manifest.read(self._storage.documents).files
        return paths & {entry.path for entry in listed if entry.selection in mine}

    def unique_key(self, table: TableRef) -> tuple[str, ...]:
        return ()

    def row_digests(
        self,
        table: TableRef,
        where: str | None,
        extent: Extent,
        pairs: Sequence[ColumnPair],
        key: Sequence[str],
        only_keys: Sequence[str] = (),
        *,
        loaded_by: Sequence[CommitRecord] = (),
        not_loaded_by: Sequence[CommitRecord] = (),
    ) -> Iterator[tuple[str, str]]:
        paths = set(self._storage.uploads.visible())
        if loaded_by:
            paths &= {path for record in loaded_by for path in record.files}
        if not_loaded_by:
            paths = self._other_files(not_loaded_by, paths)
        return self._comparing().row_digests(sorted(paths), where, extent, pairs, key, only_keys)
