"""Tables, queries and columns, and where they are."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any
from urllib.parse import quote

from penstock.errors import UsageError
from penstock.model.codec import NOT_STORED, OMITTED, JsonForm

# Parts that `TableRef.parse` reads without quotes.
_PLAIN_PART = re.compile(r'[^\s".]([^".]*[^\s".])?')


@dataclass(frozen=True, slots=True, order=True)
class TableRef:
    json_form = JsonForm(array=True)

    schema: str
    name: str
    only: bool = field(default=False, compare=False, metadata=OMITTED)
    """Only its own rows, without those of tables that inherit from it."""

    # A spec is asked for its tables again and again.
    @classmethod
    @lru_cache(maxsize=1024)
    def parse(cls, text: str, option: str) -> TableRef:
        """Read ``SCHEMA.NAME``, or ``NAME`` with an empty schema; a part with a dot is in double
        quotes.

        Raises:
            UsageError: the text has another form; `option` says where it came from.
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
                f"{option}: expected NAME or SCHEMA.NAME (double quotes around a part with a "
                f"dot), found {text!r}"
            )
        return cls(parts[0] if len(parts) == 2 else "", parts[-1])

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

    json_form = JsonForm(kind="query")

    text: str

    def __str__(self) -> str:
        return "query"


@dataclass(frozen=True, slots=True)
class Located:
    """The rows that a source's URL leads to, if it leads to rows and not to tables."""

    json_form = JsonForm(kind="located")

    def __str__(self) -> str:
        return "source"


Relation = TableRef | Query | Located
"""What rows are read from."""


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: str
    """The type as its database writes it, for people."""
    nullable: bool = True
    generated: bool = field(default=False, metadata=NOT_STORED)
    """Computed by the database: it cannot be written."""
    has_default: bool = field(default=False, metadata=NOT_STORED)
    traits: Mapping[str, Any] = field(
        default_factory=dict, compare=False, repr=False, metadata=NOT_STORED
    )
    """What its backend knows of the type beyond its name, only for backends. Under `arrow`: the
    `pyarrow.DataType` in which its values travel in record batches."""
    identity: str = field(default="", compare=False, metadata=NOT_STORED)
    """What it is known by within its table, whatever its name; empty: nothing."""


EXPRESSION, DISTINCT, KEY = "expression", "distinct", "key"
"""Traits of a column that the source computes: what it computes it by, whether its values differ
where those of the column do that it stands for, and the `MaskingKey`, or None."""


@dataclass(frozen=True, slots=True)
class MaskingKey:
    """The key of a mask, by reference."""

    variable: str
    """The environment variable that holds it."""
    proof: str
    """Differs between keys, and tells nothing of them."""


@dataclass(frozen=True, slots=True)
class ColumnPair:
    """A column of the source, and the target's column that it is loaded into."""

    source: str
    """Its name; with an expression, the name that the values have in the source's query."""
    target: str
    cast: str = ""
    """The type that the source casts to, in the source's own notation; empty: as it is."""
    canonical: str = field(default="", metadata=OMITTED)
    """Between unlike systems: how both sides write a value to compare it, one of the forms on the
    types page. Empty: it cannot be compared, or both sides are the same system."""
    expression: str = field(default="", metadata=OMITTED)
    """What the source computes instead of reading the column, in its own SQL; empty: nothing."""
    key: MaskingKey | None = field(default=None, metadata=OMITTED)
    """What the expression finds in its session; None: it needs no key."""


@dataclass(frozen=True, slots=True)
class NotCopied:
    """Something of the source, or of a dropped target's table, that a copy leaves out."""

    kind: str
    """What it is, in the plural: ``foreign keys``."""
    name: str
    remedy: str = ""
    """The statement or option that would create it in the target; empty if there is none."""
    table: str = ""
    """The target's table it belongs to; empty: none."""
    dropped: bool = False
    """It belonged to the target's old table, which the copy drops."""


@dataclass(frozen=True, slots=True)
class SequencePosition:
    """The position of a sequence."""

    last: int
    called: bool
    """Whether `last` was handed out; otherwise it is the next value."""

    def following(self, step: int) -> int:
        """The next value of a sequence of such steps."""
        return self.last + step * self.called


@dataclass(frozen=True, slots=True)
class Place:
    """Where a URL leads, without secrets: how assets and lineage name it."""

    scheme: str
    host: str
    """A server or a bucket; empty for this machine."""
    port: int | None
    database: str
    """Its name, or the path of its file; if the URL leads to rows, their path."""
    located: bool = False
    """It leads to the rows themselves, so no table is named."""
    schemas_are_databases: bool = False
    """A table's schema is its database, whatever the URL names."""
    kinds: tuple[str, ...] = ()
    """How catalogs of data assets name the system."""

    @property
    def authority(self) -> str:
        """`host:port`, as a URL has it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port is None else f"{host}:{self.port}"

    @property
    def namespace(self) -> str:
        """Lineage's name for the server, the bucket, or the kind of file."""
        return f"{self.scheme}://{self.authority}" if self.host else self.scheme

    def dataset(self, table: TableRef) -> str:
        """Lineage's name for a table, within the namespace.

        Follows OpenLineage: https://openlineage.io/docs/spec/naming.
        """
        if self.located:
            return self.database.rstrip("/") or "/"
        return ".".join(part for part in self._path(table) if part)

    def _path(self, table: TableRef) -> tuple[str, ...]:
        """The names that lead to a table, each once."""
        if self.schemas_are_databases:
            return (table.schema or self.database, table.name)
        return (self.database, table.schema, table.name)

    def uri(self, table: TableRef) -> str:
        """The URI of a table's asset: `scheme://host:port/database/schema/table`, `s3://bucket/key`,
        `file:///path`."""
        # A name is one part of the path, whatever its characters; a path consists of parts.
        database, *names = (self.database,) if self.located else self._path(table)
        parts = [quote(database, safe="" if self.host and not self.located else "/=")]
        parts += [quote(part, safe="") for part in names if part]
        return f"{self.scheme}://{self.authority}/{'/'.join(parts).strip('/')}"
