"""The nouns of Penstock: tables, columns, partitions, plans, commit records.

A bound travels as a type-tagged string, never as a JSON number: JSON numbers lose numeric(38).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import quote

from penstock.errors import UsageError

GIVEN = "given"
"""The strategy of a plan whose partitions the caller has named: they need not cover the table."""
MOST_NAMED = 5
"""Partitions that a message names."""
# What `TableRef.parse` reads back without quotes.
_PLAIN_PART = re.compile(r'[^\s".]([^".]*[^\s".])?')


@dataclass(frozen=True, slots=True, order=True)
class TableRef:
    schema: str
    name: str
    only: bool = field(default=False, compare=False)
    """Its own rows, without those of tables that inherit from it."""

    @classmethod
    def parse(cls, text: str, option: str) -> TableRef:
        """Read ``SCHEMA.NAME``, or ``NAME`` with an empty schema; a part that holds a dot is
        written in double quotes.

        Raises:
            UsageError: the text is not of that form; `option` names where it came from.
        """
        parts: list[str] = []
        rest = text.strip()
        while rest:
            if rest.startswith('"'):
                part, rest = _quoted_part(rest)
            else:
                end = rest.find(".")
                part, rest = (rest, "") if end < 0 else (rest[:end], rest[end:])
            parts.append(part)
            if not rest:
                break
            if not rest.startswith(".") or len(rest) == 1:
                parts.append("")
                break
            rest = rest[1:]
        if len(parts) not in (1, 2) or not all(parts):
            raise UsageError(
                f"{option}: expected NAME or SCHEMA.NAME (double quotes around a part that holds a "
                f"dot), found {text!r}"
            )
        return cls(parts[0] if len(parts) == 2 else "", parts[-1])

    def as_json(self) -> list[Any]:
        return [self.schema, self.name, *([True] if self.only else [])]

    def __str__(self) -> str:
        return ".".join(
            part if _PLAIN_PART.fullmatch(part) else '"' + part.replace('"', '""') + '"'
            for part in (self.schema, self.name)
            if part
        )


def _quoted_part(text: str) -> tuple[str, str]:
    """Split off a leading double-quoted part; an unclosed one comes back empty."""
    position = 1
    part: list[str] = []
    while position < len(text):
        if text[position] == '"':
            if text[position + 1 : position + 2] != '"':
                return "".join(part), text[position + 1 :]
            position += 1
        part.append(text[position])
        position += 1
    return "", ""


@dataclass(frozen=True, slots=True)
class Query:
    """A statement whose rows are read instead of a table's."""

    text: str

    def __str__(self) -> str:
        return "query"


@dataclass(frozen=True, slots=True)
class Located:
    """The rows that a source's URL leads to, where it leads to rows and not to many tables."""

    def __str__(self) -> str:
        return "source"


Relation = TableRef | Query | Located
"""What rows are read from."""


def relation_to_json(relation: Relation) -> Any:
    match relation:
        case Query(text):
            return text
        case TableRef():
            return relation.as_json()
        case Located():
            return None


def relation_from_json(raw: Any) -> Relation:
    if raw is None:
        return Located()
    return Query(raw) if isinstance(raw, str) else TableRef(*raw)


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: str
    """The type as its database writes it, for people."""
    nullable: bool = True
    generated: bool = False
    """Computed by the database: it cannot be written."""
    has_default: bool = False
    traits: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """What its backend knows of the type beyond its name, for backends alone; not stored. Under
    `arrow`: the `pyarrow.DataType` in which its values travel in record batches."""

    def as_json(self) -> dict[str, Any]:
        return {"name": self.name, "type": self.type, "nullable": self.nullable}


@dataclass(frozen=True, slots=True)
class ColumnPair:
    """A column of the source, and the one of the target that it is loaded into."""

    source: str
    target: str
    cast: str = ""
    """The type that the source casts to, in the source's own notation; empty: as it is."""
    canonical: str = ""
    """Between unlike systems: how both sides write a value when values are compared, one of those
    that the types page lists. Empty: it cannot be compared, or both are of one system."""

    def as_json(self) -> dict[str, str]:
        raw = {"source": self.source, "target": self.target, "cast": self.cast}
        return {**raw, "canonical": self.canonical} if self.canonical else raw

    @classmethod
    def from_json(cls, raw: Mapping[str, str]) -> ColumnPair:
        return cls(raw["source"], raw["target"], raw["cast"], raw.get("canonical", ""))


@dataclass(frozen=True, slots=True)
class NotCopied:
    """Something of the source, or of a target's table that was dropped, that a copy leaves out."""

    kind: str
    """What it is, in the plural: ``foreign keys``."""
    name: str
    remedy: str = ""
    """The statement or the option that makes it in the target; empty where there is none."""
    table: str = ""
    """The target's table that it belongs to; empty: none."""
    dropped: bool = False
    """The target's old table had it, which the copy drops."""

    def as_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "name": self.name,
            "remedy": self.remedy,
            "table": self.table,
            "dropped": self.dropped,
        }

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> NotCopied:
        return cls(raw["kind"], raw["name"], raw["remedy"], raw["table"], raw["dropped"])


@dataclass(frozen=True, slots=True)
class TableDefinition:
    """How a table is made, in the words of its own database."""

    dialect: str
    content: Mapping[str, Any]
    """JSON, for backends that know the dialect."""
    besides: tuple[NotCopied, ...] = ()
    """What the table has besides columns, which a target of another dialect leaves out."""


@dataclass(frozen=True, slots=True)
class SequencePosition:
    """How far a sequence has come."""

    last: int
    called: bool
    """It has given out `last`; else that is the next value."""


@dataclass(frozen=True, slots=True)
class Step:
    """Something done to the target once per run: before the first partition or after the last."""

    id: str
    """Unique in its plan."""
    name: str
    """What it does, for people."""
    statement: str
    """For the target's backend. Before: may be done again when a run starts over."""
    after: bool = False
    """Done when every partition is committed."""
    rank: int = 0
    """Steps after the last partition are done in the order of their ranks; those of one rank may
    run side by side."""
    urgent: bool = False
    """It locks others out: done with a short lock timeout, and tried again for a while."""
    sequence_of: str = ""
    """A column of the source: the statement's parameters, `last` and `called`, are how far its
    sequence has come when the step is done."""
    instead: NotCopied | None = None
    """What is told where it cannot be done: the run is done all the same."""
    position: SequencePosition | None = field(default=None, compare=False)
    """Where that is; None: the source knows none. Not stored."""

    def as_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "name": self.name,
            "statement": self.statement,
            "after": self.after,
            "rank": self.rank,
            "urgent": self.urgent,
            "sequence_of": self.sequence_of,
            "instead": self.instead and self.instead.as_json(),
        }

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Step:
        known = {name: raw[name] for name in cls.__slots__ if name != "position"}
        return cls(
            **known | {"instead": known["instead"] and NotCopied.from_json(known["instead"])}
        )


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """Where the partitions are loaded, and the steps around it."""

    table: TableRef
    """The target's table, or the one that is built beside it."""
    steps: tuple[Step, ...] = ()
    conflict_columns: tuple[str, ...] = ()
    """The unique key of mode upsert."""
    volatile: bool = False
    """A crash of the target empties the table while it is loaded: then the run starts over."""
    warnings: tuple[str, ...] = ()
    schema: str = ""
    """Of what is written, as base64 of an Arrow IPC schema, where the target has no table that
    says so itself."""
    not_copied: tuple[NotCopied, ...] = ()
    links: tuple[Step, ...] = ()
    """Steps that link the table to others of its batch: done when all of them have done theirs."""

    @property
    def before(self) -> tuple[Step, ...]:
        return tuple(step for step in self.steps if not step.after)

    @property
    def after(self) -> tuple[Step, ...]:
        return tuple(step for step in self.steps if step.after)

    def as_json(self) -> dict[str, Any]:
        return {
            "table": self.table.as_json(),
            "steps": [step.as_json() for step in self.steps],
            "conflict_columns": list(self.conflict_columns),
            "volatile": self.volatile,
            "warnings": list(self.warnings),
            "schema": self.schema,
            "not_copied": [item.as_json() for item in self.not_copied],
            "links": [step.as_json() for step in self.links],
        }

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> LoadPlan:
        return cls(
            table=TableRef(*raw["table"]),
            steps=tuple(Step.from_json(step) for step in raw["steps"]),
            conflict_columns=tuple(raw["conflict_columns"]),
            volatile=raw["volatile"],
            warnings=tuple(raw["warnings"]),
            schema=raw.get("schema", ""),
            not_copied=tuple(map(NotCopied.from_json, raw.get("not_copied", ()))),
            links=tuple(map(Step.from_json, raw.get("links", ()))),
        )


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


# What a partition selects. Together, the extents of a plan cover every row exactly once.


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


@dataclass(frozen=True, slots=True)
class Partition:
    id: str
    """Unique in its plan, at most 10 characters: it is part of an application_name."""
    extent: Extent
    rows: int | None = None
    """Estimated; None where nothing is known."""
    bytes: int | None = None
    """Estimated size in the source; None where nothing is known."""

    def __str__(self) -> str:
        return f"{self.id} ({self.extent})"

    def as_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "label": str(self.extent),
            "rows": self.rows,
            "bytes": self.bytes,
            "extent": extent_to_json(self.extent),
        }

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Partition:
        return cls(raw["id"], extent_from_json(raw["extent"]), raw["rows"], raw["bytes"])


@dataclass(frozen=True, slots=True)
class PartitionPlan:
    """Ordered partitions that together cover every row exactly once."""

    strategy: str
    reasons: tuple[str, ...]
    partitions: tuple[Partition, ...]
    columns: tuple[Column, ...]
    """The columns that are copied, as the source has them."""
    pairs: tuple[ColumnPair, ...]
    """Of each of those, where it goes."""
    format: str
    """Of the streams."""
    load: LoadPlan
    rows: int | None = None
    bytes: int | None = None
    warnings: tuple[str, ...] = ()
    series: str = ""
    """A partition of an id is committed once by all runs of a series; empty: of this run alone."""

    @property
    def fingerprint(self) -> str:
        """Changes when a partition selects other rows, or the columns change."""
        content = {
            "columns": [column.as_json() for column in self.columns],
            "pairs": [pair.as_json() for pair in self.pairs],
            "partitions": [
                [partition.id, extent_to_json(partition.extent)] for partition in self.partitions
            ],
        }
        canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()[:16]

    def partition(self, partition_id: str) -> Partition:
        """Look a partition up by its id.

        Raises:
            UsageError: the plan has no such partition.
        """
        for partition in self.partitions:
            if partition.id == partition_id:
                return partition
        first, last = self.partitions[0].id, self.partitions[-1].id
        raise UsageError(
            f"partition {partition_id!r} is not in the plan, which has "
            f"{len(self.partitions)}, from {first!r} to {last!r}"
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "strategy": self.strategy,
            "reasons": list(self.reasons),
            "warnings": list(self.warnings),
            "fingerprint": self.fingerprint,
            "rows": self.rows,
            "bytes": self.bytes,
            "columns": [column.as_json() for column in self.columns],
            "pairs": [pair.as_json() for pair in self.pairs],
            "format": self.format,
            "load": self.load.as_json(),
            "partitions": [partition.as_json() for partition in self.partitions],
            "series": self.series,
        }

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> PartitionPlan:
        """
        Raises:
            ValueError: it is not the plan that was written.
        """
        plan = cls(
            strategy=raw["strategy"],
            reasons=tuple(raw["reasons"]),
            warnings=tuple(raw["warnings"]),
            rows=raw["rows"],
            bytes=raw["bytes"],
            columns=tuple(Column(c["name"], c["type"], c["nullable"]) for c in raw["columns"]),
            pairs=tuple(ColumnPair.from_json(pair) for pair in raw["pairs"]),
            format=raw["format"],
            load=LoadPlan.from_json(raw["load"]),
            partitions=tuple(Partition.from_json(partition) for partition in raw["partitions"]),
            series=raw.get("series", ""),
        )
        if plan.fingerprint != raw["fingerprint"]:
            raise ValueError(f"a plan whose fingerprint is not {raw['fingerprint']!r}")
        return plan


@dataclass(frozen=True, slots=True)
class Place:
    """Where a URL leads, told without its secrets: how assets and lineage name what is there."""

    scheme: str
    host: str
    """A server or a bucket; empty for what is on this machine."""
    port: int | None
    database: str
    """Its name, or the path of its file; where the URL leads to rows, their path."""
    located: bool = False
    """It leads to rows, without a table to be named."""

    @property
    def authority(self) -> str:
        """`host:port`, as a URL has it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port is None else f"{host}:{self.port}"

    @property
    def namespace(self) -> str:
        """What lineage calls the server, the bucket, or the kind of file."""
        return f"{self.scheme}://{self.authority}" if self.host else self.scheme

    def dataset(self, table: TableRef) -> str:
        """What lineage calls a table, within the namespace.

        Names are those of OpenLineage: https://openlineage.io/docs/spec/naming.
        """
        if self.located:
            return self.database.rstrip("/") or "/"
        return ".".join(part for part in (self.database, table.schema, table.name) if part)

    def uri(self, table: TableRef) -> str:
        """What assets call a table: `postgres://host:port/database/schema/table`, `s3://bucket/key`,
        `file:///path`."""
        # A name is one part of the path, whatever its characters; a path has parts of its own.
        parts = [quote(self.database, safe="" if self.host and not self.located else "/=")]
        if not self.located:
            parts += [quote(part, safe="") for part in (table.schema, table.name) if part]
        return f"{self.scheme}://{self.authority}/{'/'.join(parts).strip('/')}"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A token for one consistent view of the source, and when it was taken."""

    token: str
    taken_at: str
    """ISO 8601, the source's clock."""

    def as_json(self) -> dict[str, str]:
        return {"token": self.token, "taken_at": self.taken_at}

    @classmethod
    def from_json(cls, raw: Mapping[str, str]) -> Snapshot:
        return cls(raw["token"], raw["taken_at"])


@dataclass(frozen=True, slots=True)
class SourceState:
    """Facts by which a source's table can be recognised later."""

    identity: str
    """Equal: the very same table, while its server runs."""
    layout: str
    """Equal: the rows' storage was not rewritten."""
    moment: str
    """Equal: no transaction at all has written to the source in between."""
    writes: str
    """Equal: as far as the source's statistics tell, nobody wrote to the table in between. They
    may lag behind. Empty: the source cannot tell."""
    parts: str = ""
    """Equal: it consists of the same tables."""

    def as_json(self) -> dict[str, str]:
        return {
            "identity": self.identity,
            "layout": self.layout,
            "moment": self.moment,
            "writes": self.writes,
            "parts": self.parts,
        }

    @classmethod
    def from_json(cls, raw: Mapping[str, str]) -> SourceState:
        return cls(raw["identity"], raw["layout"], raw["moment"], raw["writes"], raw["parts"])


@dataclass(frozen=True, slots=True)
class CommitRecord:
    """The row in the target that makes a partition done."""

    partition_id: str
    attempt: int
    rows: int
    bytes: int
    started_at: str
    committed_at: str
    inserted: int | None = None
    """Rows of mode upsert that were not there before; None in other modes."""
    updated: int | None = None
    """Rows of mode upsert that were there and differed."""
    transaction: str = ""
    """The target's own name for the transaction that loaded the rows; empty where it has none."""
    files: tuple[str, ...] = ()
    """Where the target consists of files: those that hold the rows, relative to the target."""
    read_at: str = ""
    """When the snapshot was taken that the rows were read with; empty where there was none."""

    def as_json(self) -> dict[str, Any]:
        return {
            "partition_id": self.partition_id,
            "attempt": self.attempt,
            "rows": self.rows,
            "bytes": self.bytes,
            "started_at": self.started_at,
            "committed_at": self.committed_at,
            "inserted": self.inserted,
            "updated": self.updated,
            "files": list(self.files),
            "read_at": self.read_at,
        }


def named(ids: Sequence[str]) -> str:
    """Some ids of partitions, for people."""
    more = len(ids) - MOST_NAMED
    return ", ".join(ids[:MOST_NAMED]) + (f" and {more:,} more" if more > 0 else "")


def read_later(records: Iterable[CommitRecord]) -> dict[str, tuple[str, ...]]:
    """Partitions that were read as of a later moment than the first ones, by that moment."""
    moments: dict[str, list[str]] = {}
    for record in records:
        if record.read_at:
            moments.setdefault(record.read_at, []).append(record.partition_id)
    _, *later = sorted(moments, key=datetime.fromisoformat) or [""]
    return {moment: tuple(sorted(moments[moment])) for moment in later}
