"""The protocols of a target."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

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
    """A target's tables, and its control store."""

    @property
    def control(self) -> ControlStore: ...

    def columns(self, table: TableRef) -> tuple[Column, ...]:
        """Return a table's columns, as for a source.

        Raises:
            PlanningError: the table does not exist.
        """
        ...

    def identity(self, table: TableRef) -> str:
        """Return a text comparable with `SourceState.identity`: equal for the very same table."""
        ...

    def creates_table(self, table: TableRef, mode: Mode) -> bool:
        """Whether the mode creates the table like the source's instead of using an existing one."""
        ...

    def defined_columns(
        self,
        table: TableRef,
        definition: TableDefinition,
        columns: Sequence[Column],
        types: Mapping[str, str],
    ) -> tuple[Column, ...]:
        """Return the columns of a table to be created like the source's.

        Args:
            table: the table.
            definition: the definition of the source's table.
            columns: the source columns to copy; for an unlike system, with the trait `arrow`.
            types: the types that the user specified, by column, in the target's own notation.

        Raises:
            PlanningError: the table cannot be created like that.
        """
        ...

    def fit(self, source: Sequence[Column], target: Sequence[Column]) -> list[Fit]:
        """Return how each source column fits the target column at the same position."""
        ...

    def check_writable(self, table: TableRef, mode: Mode, columns: Sequence[str]) -> None:
        """Check that a table can be loaded.

        Args:
            table: the table.
            mode: the mode of the load.
            columns: the names of the columns.

        Raises:
            PlanningError: a privilege is missing (names it, and the GRANT that would help), or the
                relation cannot be loaded.
        """
        ...

    def plan_load(self, request: LoadRequest) -> LoadPlan:
        """Plan where partitions are loaded, and the steps before and after. Changes nothing.

        Raises:
            PlanningError: the mode cannot be used on this table, or a privilege is missing.
        """
        ...

    def shares_order(self, table: TableRef, key: Key, collation: str) -> bool:
        """Whether conditions on the table can compare a key by the source's own collation.

        Args:
            table: the table.
            key: the key.
            collation: the source's collation for the key, from `SourceCatalog.native_order`.
        """
        ...

    def check_condition(self, table: TableRef, where: str | None, extent: Extent) -> None:
        """Check that a condition can be evaluated.

        Args:
            table: the table.
            where: the condition of `--where`; None for all rows.
            extent: the rows of one partition, or all.

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
        digest_others: bool,
    ) -> Mapping[str, Checksum] | None:
        """Return, by partition, checksums of the rows loaded by each record's transaction.

        All are computed in one scan.

        Args:
            table: the table.
            where: the condition of `--where`; None for all rows.
            records: the commit records of the partitions.
            pairs: if empty, rows are only counted.
            digest_others: also digest the rows that none of them loaded, under the empty key; they
                are counted in any case.

        Returns:
            None if the target cannot tell which rows these are.
        """
        ...

    def unique_key(self, table: TableRef) -> tuple[str, ...]:
        """Return columns that identify rows, preferably the primary key; empty without any."""
        ...

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
        """Yield keys and digests, as for a source.

        Args:
            table: the table.
            where: the condition of `--where`; None for all rows.
            extent: the rows of one partition, or all.
            pairs: the copied columns.
            key: the names of the key's columns.
            only_keys: keys to read alone; empty for all.
            loaded_by: only rows loaded by the transactions of these records.
            not_loaded_by: only rows not loaded by any of these.
        """
        ...

    def close(self) -> None:
        """Disconnect, and cancel what is running. May be called twice."""
        ...


@runtime_checkable
class WithSchemas(Protocol):
    """A target whose tables are in schemas, which a load can create."""

    def schemas_beside(self, table: TableRef) -> tuple[str, ...] | None:
        """Return the names of all schemas if a table's own is missing; None if it is there."""
        ...


class WithIndexes(Protocol):
    """A `TargetCatalog` whose target supports the option `indexes`."""

    def has_indexes(self, table: TableRef) -> bool:
        """Whether a table has indexes that a load could do without; False if it does not exist."""
        ...
