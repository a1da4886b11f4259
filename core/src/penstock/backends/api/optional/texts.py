"""Files of texts whose columns get the types of the table that they are loaded into."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.model.tables import Column

GIVEN = "given"
"""A trait of a source's columns: the types that the files were given, for `with_given`."""


@runtime_checkable
class TakesTypes(Protocol):
    """A backend whose sources would otherwise read all rows to find types."""

    def with_types(
        self, url: str, types: Sequence[tuple[str, pa.DataType | None]], *, by_position: bool
    ) -> str:
        """Return a source's URL with given types, for all of its columns or for none.

        The beginning of each file is read. Types are not given if a value there contradicts one, or
        if only other rows can tell the type of a column.

        Args:
            url: the resolved URL.
            types: the names of the table's columns, with the types in which the source's values
                have to be written; None where any text may do.
            by_position: whether columns are paired by position.

        Raises:
            PenstockError: a file cannot be read.
        """
        ...

    def with_given(self, url: str, given: str) -> str:
        """Return a source's URL with the types that a stored run was planned with.

        Args:
            url: the resolved URL.
            given: the trait `GIVEN` of the run's columns.
        """
        ...


@runtime_checkable
class GivesTypes(Protocol):
    """A target that accepts texts as the values that they are in other types."""

    def text_types(self, columns: Sequence[Column]) -> list[pa.DataType | None]:
        """Return, for each column of a table, the type whose texts it takes as the same values.

        None where this is not so for each text, or where values may be rounded.
        """
        ...
