"""The types of a database as a table, with one line for everything known about a type."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

import pyarrow as pa

from penstock.backends.shared.values.arrow import TRAIT
from penstock.backends.shared.values.created_types import CreatedTypes, check_type
from penstock.backends.shared.values.guards import ValueGuard
from penstock.errors import PlanningError
from penstock.model.table_model import OTHER
from penstock.model.tables import Column


class NamedType(Protocol):
    """A column's type; its text is in the database's spelling."""

    @property
    def name(self) -> str:
        """The name without length and the like."""
        ...


T = TypeVar("T", bound=NamedType)


@dataclass(frozen=True)
class TypeLine(Generic[T]):
    """The facts about one type.

    Args:
        arrow: the type in which values travel; None if they do not.
        tag: the tag of bounds; the type's name if empty.
        kind: as in `ColumnType`.
        travels: the expression to select for a value, `{}`, so that the driver has one for a record
            batch.
        guards: checks for values that a column of the type would change.
    """

    arrow: pa.DataType | Callable[[T], pa.DataType] | None
    tag: str | Callable[[T], str] = ""
    kind: str = OTHER
    travels: str = "{}"
    guards: Callable[[T], Iterator[ValueGuard]] | None = None


class TypeTable(Generic[T]):
    """The table of a database's types.

    Args:
        lines: by the names of types.
        default: the line for all other types.
        finer: returns a condition, given a value and its type, for times finer than a microsecond,
            which record batches would lose; empty if the type has none.
        too_fine: a description of such a time, and what to do about it, for messages.
        created: the column types created for Arrow types.
        type_pattern: the pattern of types that a user may specify.
    """

    def __init__(
        self,
        lines: Mapping[str, TypeLine[T]],
        default: TypeLine[T],
        *,
        finer: Callable[[str, T], str],
        too_fine: str,
        created: CreatedTypes,
        type_pattern: re.Pattern[str],
    ) -> None:
        self._lines = lines
        self._default = default
        self.finer = finer
        self.too_fine = too_fine
        self.created = created
        self._type_pattern = type_pattern

    def line(self, type_: T) -> TypeLine[T]:
        return self._lines.get(type_.name, self._default)

    def tag(self, type_: T) -> str:
        """See `Bound`."""
        tag = self.line(type_).tag
        return (tag if isinstance(tag, str) else tag(type_)) or type_.name

    def travelling(self, value: str, type_: T) -> str:
        """Return the expression to select for a value; see `TypeLine`."""
        return self.line(type_).travels.format(value)

    def arrow_type(self, type_: T) -> pa.DataType | None:
        """Return the type in which values travel; None if they do not."""
        arrow = self.line(type_).arrow
        return arrow(type_) if callable(arrow) else arrow

    def in_arrow(self, column: Column, type_: T) -> Column:
        """Return a column with the type of its values in record batches, as a trait.

        Raises:
            PlanningError: values of the type cannot be copied.
        """
        kind = self.arrow_type(type_)
        if kind is None:
            raise PlanningError(
                f"column {column.name}: values of type {column.type} cannot be copied; leave the "
                "column out with --columns, or cast it to text in a --query"
            )
        return replace(column, traits={**column.traits, TRAIT: kind})

    def guards(self, type_: T) -> Iterator[ValueGuard]:
        """See `TypeLine`."""
        guards = self.line(type_).guards
        if guards is not None:
            yield from guards(type_)

    def requested_type(self, name: str, text: str) -> str:
        """Return a type that the user specified, for a statement.

        Args:
            name: the column's name.
            text: the type that the user wrote.

        Raises:
            UsageError: the text is not a type.
        """
        check_type(self._type_pattern, name, text)
        return text.strip()
