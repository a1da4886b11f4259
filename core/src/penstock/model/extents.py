"""Extents: the rows that a partition stands for.

A bound travels as a type-tagged string, never as a JSON number: JSON numbers lose numeric(38).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.errors import UsageError
from penstock.model.tables import TableRef


@dataclass(frozen=True, slots=True)
class Bound:
    """A key value: its text in the source's own notation, tagged with its type."""

    type: str
    """Empty in a partition that a caller names: the key's own."""
    text: str

    def as_json(self) -> dict[str, str]:
        return {"type": self.type, "text": self.text}

    @classmethod
    def from_json(cls, raw: Mapping[str, str]) -> Bound:
        return cls(raw["type"], raw["text"])


@dataclass(frozen=True, slots=True)
class Key:
    """What partitions are told apart by: a column, or an expression over the table's columns."""

    text: str
    expression: bool = False
    collation: str = ""
    """The collation that comparisons must use; empty for the key's own."""

    def as_json(self) -> dict[str, Any]:
        return {"text": self.text, "expression": self.expression, "collation": self.collation}

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Key:
        return cls(raw["text"], raw["expression"], raw["collation"])


@dataclass(frozen=True, slots=True)
class Whole:
    """Every row."""

    def __str__(self) -> str:
        return "whole table"


@dataclass(frozen=True, slots=True)
class BlockRange:
    """Rows stored in the blocks `[lower, upper)`; without `upper`, in all that follow too."""

    lower: int
    upper: int | None

    def __str__(self) -> str:
        return f"blocks [{self.lower}, {'end' if self.upper is None else self.upper})"


@dataclass(frozen=True, slots=True)
class KeyRange:
    """Rows with `lower <= key < upper`; a bound that is None leaves that side open."""

    key: Key
    lower: Bound | None
    upper: Bound | None

    def __str__(self) -> str:
        if self.lower is None and self.upper is None:
            return f"{self.key.text} not null"
        if self.lower is None and self.upper is not None:
            return f"{self.key.text} < {self.upper.text}"
        if self.upper is None and self.lower is not None:
            return f"{self.key.text} >= {self.lower.text}"
        assert self.lower is not None and self.upper is not None
        return f"{self.key.text} [{self.lower.text}, {self.upper.text})"


@dataclass(frozen=True, slots=True)
class KeyIsNull:
    """The NULL partition."""

    key: Key

    def __str__(self) -> str:
        return f"{self.key.text} is null"


@dataclass(frozen=True, slots=True)
class KeyValues:
    """Rows whose key is one of the values."""

    key: Key
    values: tuple[Bound, ...]

    def __str__(self) -> str:
        return f"{self.key.text} = {', '.join(value.text for value in self.values)}"


@dataclass(frozen=True, slots=True)
class KeyOther:
    """Rows whose key is neither NULL nor one of the values."""

    key: Key
    values: tuple[Bound, ...]

    def __str__(self) -> str:
        return f"{self.key.text}: any other value"


@dataclass(frozen=True, slots=True)
class HashBucket:
    """Rows whose key hashes to `remainder`, modulo `modulus`; NULL hashes to 0."""

    key: Key
    modulus: int
    remainder: int

    def __str__(self) -> str:
        return f"hash({self.key.text}) % {self.modulus} = {self.remainder}"


@dataclass(frozen=True, slots=True)
class Children:
    """Every row of some of the tables that a table consists of."""

    tables: tuple[TableRef, ...]

    def __str__(self) -> str:
        first, *rest = map(str, self.tables)
        return f"{first} and {len(rest)} more" if rest else first


@dataclass(frozen=True, slots=True)
class ChildBlocks:
    """A block range of one of the tables that a table consists of; see `BlockRange`."""

    table: TableRef
    lower: int
    upper: int | None

    def __str__(self) -> str:
        return f"{self.table} {BlockRange(self.lower, self.upper)}"


@dataclass(frozen=True, slots=True)
class FilePart:
    """A file, or some of its row groups."""

    path: str
    """As its file system names it."""
    size: int
    """In bytes."""
    version: str
    """Equal: the file was not written anew."""
    lower: int = 0
    upper: int | None = None
    """Row groups `[lower, upper)`; without `upper`, all from `lower` on."""

    def __str__(self) -> str:
        name = self.path.rstrip("/").rpartition("/")[2]
        if self.lower == 0 and self.upper is None:
            return name
        return f"{name} row groups [{self.lower}, {'end' if self.upper is None else self.upper})"

    def as_json(self) -> list[Any]:
        return [self.path, self.size, self.version, self.lower, self.upper]


@dataclass(frozen=True, slots=True)
class Files:
    """Every row of some files, or of parts of them."""

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
    | HashBucket
    | Children
    | ChildBlocks
    | Files
)


def extent_to_json(extent: Extent) -> dict[str, Any]:
    match extent:
        case Whole():
            return {"kind": "whole"}
        case BlockRange(lower, upper):
            return {"kind": "blocks", "lower": lower, "upper": upper}
        case KeyRange(key, lower_bound, upper_bound):
            return {
                "kind": "range",
                "key": key.as_json(),
                "lower": lower_bound and lower_bound.as_json(),
                "upper": upper_bound and upper_bound.as_json(),
            }
        case KeyIsNull(key):
            return {"kind": "null", "key": key.as_json()}
        case KeyValues(key, values):
            return {
                "kind": "values",
                "key": key.as_json(),
                "values": [value.as_json() for value in values],
            }
        case KeyOther(key, values):
            return {
                "kind": "other",
                "key": key.as_json(),
                "values": [value.as_json() for value in values],
            }
        case HashBucket(key, modulus, remainder):
            return {
                "kind": "hash",
                "key": key.as_json(),
                "modulus": modulus,
                "remainder": remainder,
            }
        case Children(tables):
            return {"kind": "children", "tables": [[t.schema, t.name] for t in tables]}
        case ChildBlocks(table, lower, upper):
            return {
                "kind": "child blocks",
                "table": [table.schema, table.name],
                "lower": lower,
                "upper": upper,
            }
        case Files(parts):
            return {"kind": "files", "parts": [part.as_json() for part in parts]}


def extent_from_json(raw: Mapping[str, Any]) -> Extent:
    match raw["kind"]:
        case "whole":
            return Whole()
        case "blocks":
            return BlockRange(raw["lower"], raw["upper"])
        case "range":
            return KeyRange(
                Key.from_json(raw["key"]),
                raw["lower"] and Bound.from_json(raw["lower"]),
                raw["upper"] and Bound.from_json(raw["upper"]),
            )
        case "null":
            return KeyIsNull(Key.from_json(raw["key"]))
        case "values":
            return KeyValues(Key.from_json(raw["key"]), _bounds(raw["values"]))
        case "other":
            return KeyOther(Key.from_json(raw["key"]), _bounds(raw["values"]))
        case "hash":
            return HashBucket(Key.from_json(raw["key"]), raw["modulus"], raw["remainder"])
        case "children":
            return Children(tuple(TableRef(*table) for table in raw["tables"]))
        case "child blocks":
            return ChildBlocks(TableRef(*raw["table"]), raw["lower"], raw["upper"])
        case "files":
            return Files(tuple(FilePart(*part) for part in raw["parts"]))
        case kind:
            raise UsageError(f"partition: unknown kind {kind!r}; a newer Penstock wrote this plan?")


def _bounds(raw: list[Mapping[str, str]]) -> tuple[Bound, ...]:
    return tuple(Bound.from_json(value) for value in raw)
