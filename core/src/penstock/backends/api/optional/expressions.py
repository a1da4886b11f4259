"""Sources that compute columns in their own query: by expressions, and by masks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from penstock.model.table_model import TableDefinition
    from penstock.model.tables import Column, ColumnPair, MaskingKey, Relation
    from penstock.spec.masks import Mask


@runtime_checkable
class ComputesColumns(Protocol):
    """A `SourceCatalog` that has the options `set` and `mask`. Its readers, checksums and digests
    heed the expressions of pairs."""

    def check_expression(self, relation: Relation, text: str, subject: str) -> None:
        """
        Parameters:
            subject: what it was given by, for errors.

        Raises:
            PlanningError: it is no expression of one row: it cannot be evaluated, or needs other
                rows, or closes a bracket that it did not open. Has the server's message.
        """
        ...

    def masked(self, relation: Relation, column: Column, mask: Mask, key: MaskingKey | None) -> str:
        """The expression of a mask.

        Raises:
            PlanningError: there is no such mask of values of the column's type.
        """
        ...

    def computed(
        self, relation: Relation, pairs: Sequence[ColumnPair], *, in_arrow: bool
    ) -> tuple[Column, ...]:
        """Columns as the source would describe them in the result of a query; each may be NULL.

        Parameters:
            pairs: each with an expression.
            in_arrow: with the trait `arrow`.

        Raises:
            PlanningError: one cannot be evaluated.
            UsageError: the key of a mask is not there.
        """
        ...


@runtime_checkable
class DefinesComputed(Protocol):
    """One whose definitions hold more than a `TableModel`, for targets of the same system."""

    def with_columns(
        self, definition: TableDefinition, columns: tuple[Column, ...]
    ) -> TableDefinition:
        """A table's definition with other columns: without those that are left out, and with the
        types of those that are computed.

        Parameters:
            columns: all that it is to have; computed ones have the traits `EXPRESSION` and
                `DISTINCT`.
        """
        ...
