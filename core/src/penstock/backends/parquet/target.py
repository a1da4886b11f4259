"""A dataset of Parquet files as a target: checked before anything is changed, compared after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.backends.arrow import schema_from_text
from penstock.backends.base import Fit, LoadRequest
from penstock.backends.parquet import load_plan, manifest
from penstock.backends.parquet.control import ControlDocuments
from penstock.backends.parquet.fitting import fit_columns
from penstock.backends.parquet.storage import open_storage
from penstock.errors import PlanningError
from penstock.model import (
    Column,
    LoadPlan,
    TableDefinition,
    TableRef,
)


class ParquetTarget:
    """
    Parameters:
        url: of a folder, which is the dataset.
    """

    replaces_by_condition = False

    def __init__(self, url: str, control_schema: str) -> None:
        self._storage = open_storage(url, control_schema)
        self.control = ControlDocuments(self._storage)

    def close(self) -> None:
        """Nothing is kept open."""

    def columns(self, table: TableRef) -> tuple[Column, ...]:
        found = manifest.read(self._storage.documents)
        if not found.schema:
            raise PlanningError(f"target: {self._storage}: expected a dataset, found none")
        return load_plan.columns_of(schema_from_text(found.schema))

    def identity(self, table: TableRef) -> str:
        return ""

    def makes(self, table: TableRef, mode: str) -> bool:
        return mode == "recreate" or not manifest.read(self._storage.documents).files

    def defined_columns(
        self,
        table: TableRef,
        definition: TableDefinition,
        columns: Sequence[Column],
        types: Mapping[str, str],
    ) -> tuple[Column, ...]:
        return load_plan.defined_columns(columns, types)

    def fit(self, source: Sequence[Column], target: Sequence[Column]) -> list[Fit]:
        return fit_columns(source, target)

    def check_writable(self, table: TableRef, mode: str, columns: Sequence[str]) -> None:
        load_plan.check_writable(self._storage)

    def plan_load(self, request: LoadRequest) -> LoadPlan:
        return load_plan.plan_load(self._storage, request)

    def unique_key(self, table: TableRef) -> tuple[str, ...]:
        return ()
