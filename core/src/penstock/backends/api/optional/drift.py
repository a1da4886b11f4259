"""A target whose tables can follow changed columns of the source."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from penstock.model.drift import ColumnChange
from penstock.model.table_model import TableDefinition
from penstock.model.tables import Column, TableRef


@dataclass(frozen=True, slots=True)
class PermittedDifferences:
    """Differences of a target table's columns that are to follow the source."""

    added: Sequence[Column] = ()
    """New columns, as they would be created."""
    renamed: Sequence[tuple[str, str]] = ()
    """Pairs of the old and new name of columns outside the key."""
    type_pairs: Sequence[tuple[Column, Column]] = ()
    """Pairs of an existing column, by its current name, and the column that would be created."""
    newly_nullable: Sequence[Column] = ()
    """Columns that will allow NULL."""


@runtime_checkable
class AltersColumns(Protocol):
    """A `TargetCatalog` that can alter the columns of an existing table."""

    def expected_columns(
        self,
        table: TableRef,
        columns: Sequence[Column],
        define: Callable[[], TableDefinition],
    ) -> tuple[Column, ...]:
        """Return the types in which columns of the source would be created.

        See `TargetCatalog.defined_columns`.

        Args:
            table: the table.
            columns: the columns.
            define: returns the definition of the source's table, if it is needed.

        Raises:
            PlanningError: the target has no such type.
        """
        ...

    def column_changes(
        self, table: TableRef, differences: PermittedDifferences
    ) -> tuple[ColumnChange, ...]:
        """Return the necessary changes in order, with their statements and costs.

        A column that holds all values of the new type stays unchanged.

        Raises:
            PlanningError: the user may not alter the table.
        """
        ...
