"""Extents: the rows that a partition selects.

A bound travels as a text with a type tag, never as a JSON number, which would lose numeric(38).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.model.codec import JsonForm
from penstock.model.tables import TableRef
from penstock.model.values import value

# Types whose bounds are always shown; empty is the type of bounds that the caller defines.
_PLAIN = frozenset(
    {
        *("", "int2", "int4", "int8", "numeric", "float4", "float8", "bool", "oid"),
        *("date", "time", "timestamp", "timestamptz", "timestamp_ns", "uuid", "uniqueidentifier"),
    }
)


@dataclass(frozen=True, slots=True)
class Bound:
    """A key value: its text in the source's own notation, tagged with its type."""

    type: str
    """The type's tag; empty in a partition that the caller defines: the key's own type."""
    text: str

    def __str__(self) -> str:
        """Return the value as messages show it: unless a number or a time, it may be hidden."""
        return self.text if self.type in _PLAIN else value(self.text)


@dataclass(frozen=True, slots=True)
class Key:
    """The key of a table: a column, or an expression over its columns."""

    text: str
    expression: bool = False
    collation: str = ""
    """The collation for comparisons; empty for the key's own."""


@dataclass(frozen=True, slots=True)
class Whole:
    """Every row."""

    json_form = JsonForm(kind="whole")

    def __str__(self) -> str:
        return "whole table"


@dataclass(frozen=True, slots=True)
class BlockRange:
    """Rows stored in the blocks `[lower, upper)`; without `upper`, in all blocks from `lower`."""

    json_form = JsonForm(kind="blocks")

    lower: int
    upper: int | None

    def __str__(self) -> str:
        return f"blocks [{self.lower}, {'end' if self.upper is None else self.upper})"


@dataclass(frozen=True, slots=True)
class KeyRange:
    """Rows with `lower <= key < upper`; None leaves a side open."""

    json_form = JsonForm(kind="range")

    key: Key
    lower: Bound | None
    upper: Bound | None

    def __str__(self) -> str:
        if self.lower is None and self.upper is None:
            return f"{self.key.text} not null"
        if self.lower is None and self.upper is not None:
            return f"{self.key.text} < {self.upper}"
        if self.upper is None and self.lower is not None:
            return f"{self.key.text} >= {self.lower}"
        assert self.lower is not None and self.upper is not None
        return f"{self.key.text} [{self.lower}, {self.upper})"


@dataclass(frozen=True, slots=True)
class KeyIsNull:
    """The NULL partition."""

    json_form = JsonForm(kind="null")

    key: Key

    def __str__(self) -> str:
        return f"{self.key.text} is null"


@dataclass(frozen=True, slots=True)
class KeyValues:
    """Rows whose key is one of the values."""

    json_form = JsonForm(kind="values")

    key: Key
    values: tuple[Bound, ...]

    def __str__(self) -> str:
        return f"{self.key.text} = {', '.join(map(str, self.values))}"


@dataclass(frozen=True, slots=True)
class KeyOther:
    """Rows whose key is neither NULL nor one of the values."""

    json_form = JsonForm(kind="other")

    key: Key
    values: tuple[Bound, ...]

    def __str__(self) -> str:
        return f"{self.key.text}: any other value"


@dataclass(frozen=True, slots=True)
class Crossing:
    """Rows that two extents, each with its own key, both select."""

    json_form = JsonForm(kind="crossing")

    first: KeyRange | KeyValues
    second: KeyRange | KeyValues

    @property
    def keys(self) -> tuple[Key, Key]:
        return self.first.key, self.second.key

    def __str__(self) -> str:
        return f"{self.first} and {self.second}"


@dataclass(frozen=True, slots=True)
class HashBucket:
    """Rows whose key hashes to `remainder`, modulo `modulus`; NULL hashes to 0."""

    json_form = JsonForm(kind="hash")

    key: Key
    modulus: int
    remainder: int

    def __str__(self) -> str:
        return f"hash({self.key.text}) % {self.modulus} = {self.remainder}"


@dataclass(frozen=True, slots=True)
class Children:
    """Every row of some child tables of a table."""

    json_form = JsonForm(kind="children")

    tables: tuple[TableRef, ...]

    def __str__(self) -> str:
        first, *rest = map(str, self.tables)
        return f"{first} and {len(rest)} more" if rest else first


@dataclass(frozen=True, slots=True)
class ChildBlocks:
    """A block range of one child table; see `BlockRange`."""

    json_form = JsonForm(kind="child blocks")

    table: TableRef
    lower: int
    upper: int | None

    def __str__(self) -> str:
        return f"{self.table} {BlockRange(self.lower, self.upper)}"


@dataclass(frozen=True, slots=True)
class FilePart:
    """A file, or some of its row groups."""

    json_form = JsonForm(array=True)

    path: str
    """The name in its file system."""
    size: int
    """The size in bytes."""
    version: str
    """A version; as long as it is equal, the file has not been rewritten."""
    lower: int = 0
    upper: int | None = None
    """The end of the row groups `[lower, upper)`; None for all from `lower`."""

    def __str__(self) -> str:
        name = self.path.rstrip("/").rpartition("/")[2]
        if self.lower == 0 and self.upper is None:
            return name
        return f"{name} row groups [{self.lower}, {'end' if self.upper is None else self.upper})"


@dataclass(frozen=True, slots=True)
class Files:
    """Every row of some files, or of parts of them."""

    json_form = JsonForm(kind="files")

    parts: tuple[FilePart, ...]

    def __str__(self) -> str:
        first, *rest = map(str, self.parts)
        return f"{first} and {len(rest)} more" if rest else first


Extent = (
    Whole
    | BlockRange
    | KeyRange
    | KeyIsNull
    | KeyValues
    | KeyOther
    | Crossing
    | HashBucket
    | Children
    | ChildBlocks
    | Files
)


def selects_all(extent: Extent, never_null: Sequence[str]) -> bool:
    """Whether an extent selects every row, however it is written.

    Args:
        extent: the extent.
        never_null: columns that are never NULL.
    """
    match extent:
        case Whole() | BlockRange(0, None):
            return True
        case KeyRange(key, None, None):
            return not key.expression and key.text in never_null
        case _:
            return False
