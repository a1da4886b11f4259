"""What a database offers to be a target."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from penstock.backends.api.source import Schemas

if TYPE_CHECKING:
    from penstock.backends.api.execution.control import ControlStore
    from penstock.backends.api.facts import Checksum, Fit, LoadRequest
    from penstock.model.extents import Extent, Key
    from penstock.model.plans import LoadPlan
    from penstock.model.records import CommitRecord
    from penstock.model.table_model import TableDefinition
    from penstock.model.tables import (
        Column,
        ColumnPair,
        TableRef,
    )
    from penstock.spec.modes import Mode


class TargetCatalog(Schemas, Protocol):
    """A target's tables, and the control store beside them."""

    @property
    def control(self) -> ControlStore: ...

    def columns(self, table: TableRef) -> tuple[Column, ...]:
        """As for a source.

        Raises:
            PlanningError: no such table.
        """
        ...

    def identity(self, table: TableRef) -> str:
        """Comparable with `SourceState.identity`: equal means the very same table."""
        ...

    def makes(self, table: TableRef, mode: Mode) -> bool:
        """Whether the mode makes the table like the source, instead of taking it as it is."""
        ...

    def defined_columns(
        self,
        table: TableRef,
        definition: TableDefinition,
        columns: Sequence[Column],
        types: Mapping[str, str],
    ) -> tuple[Column, ...]:
        """The columns that a table will have which is made like the source.

        Parameters:
            columns: the source's that are copied; of an unlike system, with the trait `arrow`.
            types: what somebody wants columns to be, by name, in the target's own notation.

        Raises:
            PlanningError: it cannot be made so.
        """
        ...

    def fit(self, source: Sequence[Column], target: Sequence[Column]) -> list[Fit]:
        """How each of the source's columns goes into the target's column at its place."""
        ...

    def check_writable(self, table: TableRef, mode: Mode, columns: Sequence[str]) -> None:
        """
        Raises:
            PlanningError: a privilege is missing (which, and the GRANT that would do), or the
                relation cannot be loaded.
        """
        ...

    def plan_load(self, request: LoadRequest) -> LoadPlan:
        """Where the partitions are loaded, and what is done before and after. Changes nothing.

        Raises:
            PlanningError: the mode cannot be used on this table, or a privilege is missing.
        """
        ...

    def shares_order(self, table: TableRef, key: Key, collation: str) -> bool:
        """Whether conditions on the table can compare a key by the source's own collation, see
        `SourceCatalog.own_order`."""
        ...

    def check_condition(self, table: TableRef, where: str | None, extent: Extent) -> None:
        """
        Raises:
            PlanningError: the condition cannot be evaluated on the target's table.
        """
        ...

    def checksum(
        self, table: TableRef, where: str | None, extent: Extent, pairs: Sequence[ColumnPair]
    ) -> Checksum: ...

    def checksums(
        self,
        table: TableRef,
        where: str | None,
        records: Sequence[CommitRecord],
        pairs: Sequence[ColumnPair],
        *,
        others: bool,
    ) -> Mapping[str, Checksum] | None:
        """Of the rows that each record's transaction has loaded, in one scan, by partition.

        Parameters:
            pairs: empty to count only.
            others: under the empty key, digest the rows that none of them has loaded, too; they
                are counted in any case.

        Returns: None where the target cannot tell which rows those are.
        """
        ...

    def unique_key(self, table: TableRef) -> tuple[str, ...]:
        """Columns that tell rows apart: the primary key's, or another's; empty for none."""
        ...

    def row_digests(
        self,
        table: TableRef,
        where: str | None,
        extent: Extent,
        pairs: Sequence[ColumnPair],
        key: Sequence[str],
        only: Sequence[str] = (),
        *,
        loaded_by: Sequence[CommitRecord] = (),
        other_than: Sequence[CommitRecord] = (),
    ) -> Iterator[tuple[str, str]]:
        """As for a source.

        Parameters:
            loaded_by: only rows that these records' transactions have loaded.
            other_than: only rows that none of these have loaded.
        """
        ...

    def close(self) -> None:
        """Disconnect, and cancel what runs. May be called twice."""
        ...


class WithIndexes(Protocol):
    """A `TargetCatalog` whose target has the option `indexes`."""

    def has_indexes(self, table: TableRef) -> bool:
        """Whether it has indexes that a load could do without; False where there is no table."""
        ...
