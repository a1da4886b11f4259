"""Sources that compute columns in their queries, by expressions and masks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from penstock.model.table_model import TableDefinition
    from penstock.model.tables import Column, ColumnPair, MaskingKey, Relation
    from penstock.spec.masks import Mask


@runtime_checkable
class ComputesColumns(Protocol):
    """A `SourceCatalog` with the options `set` and `mask`.

    Its readers, checksums and digests apply the expressions of pairs.
    """

    def check_expression(self, relation: Relation, text: str, subject: str) -> None:
        """Check that a text is an expression over one row.

        Args:
            relation: the source's table or query.
            text: the text.
            subject: the option that contains it, for error messages.

        Raises:
            PlanningError: it is not: it cannot be evaluated, needs other rows, or closes a bracket
                that it did not open. The message includes the server's.
        """
        ...

    def mask_expression(
        self, relation: Relation, column: Column, mask: Mask, key: MaskingKey | None
    ) -> str:
        """Return the expression of a mask.

        Args:
            relation: the source's table or query.
            column: the column.
            mask: the mask.
            key: the key of `hmac`; None for other masks.

        Raises:
            PlanningError: the mask does not support the column's type.
        """
        ...

    def computed_columns(
        self, relation: Relation, pairs: Sequence[ColumnPair], *, in_arrow: bool
    ) -> tuple[Column, ...]:
        """Return columns as the source would describe them in a query's result; each may be NULL.

        Args:
            relation: the source's table or query.
            pairs: pairs with expressions.
            in_arrow: whether to add the trait `arrow`.

        Raises:
            PlanningError: an expression cannot be evaluated.
            UsageError: the key of a mask is missing.
        """
        ...


@runtime_checkable
class DefinesComputed(Protocol):
    """A source whose definitions hold more than a `TableModel`, for targets of the same system."""

    def with_columns(
        self, definition: TableDefinition, columns: tuple[Column, ...]
    ) -> TableDefinition:
        """Return a table's definition with other columns.

        Some may be left out, and computed ones have their new types.

        Args:
            definition: the definition of the source's table.
            columns: all columns of the result; computed ones have the traits `EXPRESSION` and
                `DISTINCT`.
        """
        ...
