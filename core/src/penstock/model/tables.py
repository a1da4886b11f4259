"""Tables, queries and columns, and their locations."""

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
    """The name of a table or view; the schema is empty if the user has named none."""

    json_form = JsonForm(array=True)

    schema: str
    name: str
    only: bool = field(default=False, compare=False, metadata=OMITTED)
    """Whether to read only its own rows, without those of tables that inherit from it."""

    # Cached, because a spec parses its tables again and again.
    @classmethod
    @lru_cache(maxsize=1024)
    def parse(cls, text: str, option: str) -> TableRef:
        """Parse ``SCHEMA.NAME``, or ``NAME`` with an empty schema.

        A part that contains a dot is in double quotes.

        Raises:
            UsageError: the text has another form; the message names `option`.
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
        name = _written(self.name)
        return f"{_written(self.schema)}.{name}" if self.schema else name


def _written(part: str) -> str:
    return part if _PLAIN_PART.fullmatch(part) else '"' + part.replace('"', '""') + '"'


def _quoted_part(text: str) -> tuple[str, str]:
    """Split off a leading double-quoted part; return an empty one if the quote is not closed."""
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
    """The rows to which a source's URL leads, if it leads to rows rather than tables."""

    json_form = JsonForm(kind="located")

    def __str__(self) -> str:
        return "source"


Relation = TableRef | Query | Located
"""The things from which rows can be read."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table or query, as its own database describes it."""

    name: str
    type: str
    """The type in its database's notation."""
    nullable: bool = True
    generated: bool = field(default=False, metadata=NOT_STORED)
    """Whether the database computes it, so that it cannot be written."""
    has_default: bool = field(default=False, metadata=NOT_STORED)
    traits: Mapping[str, Any] = field(
        default_factory=dict, compare=False, repr=False, metadata=NOT_STORED
    )
    """Facts about the type beyond its name, for backends only. Under `arrow`: the
    `pyarrow.DataType` in which its values travel in record batches."""
    identity: str = field(default="", compare=False, metadata=NOT_STORED)
    """An id that names the table and survives renaming; empty without one."""
    place: int = field(default=0, compare=False, metadata=NOT_STORED)
    """Its place among the columns of its table, if it has no id; 0 if the order means nothing."""
    collation: str = field(default="", compare=False, metadata=NOT_STORED)
    """The collation of its texts; empty for the usual one of its type."""
    formula: str = field(default="", compare=False, metadata=NOT_STORED)
    """The expression by which the database computes it; empty if it does not, or if unknown."""


EXPRESSION, DISTINCT, KEY = "expression", "distinct", "key"
"""Traits of a column that the source computes: its expression; whether it has distinct values for
distinct values of the column it replaces; and its `MaskingKey`, or None."""


@dataclass(frozen=True, slots=True)
class MaskingKey:
    """The key of a mask, as a reference."""

    variable: str
    """The environment variable that holds it."""
    proof: str
    """A text that differs between keys, and reveals nothing of them."""


@dataclass(frozen=True, slots=True)
class ColumnPair:
    """A column of the source, and the target's column into which it is loaded."""

    source: str
    """The source column's name; with an expression, the name of its values in the query."""
    target: str
    cast: str = ""
    """The type to which the source casts, in the source's notation; empty for no cast."""
    canonical: str = field(default="", metadata=OMITTED)
    """Between unlike systems: the form in which both sides write a value to compare it, one of
    those on the types page. Empty if values cannot be compared, or the systems are the same."""
    expression: str = field(default="", metadata=OMITTED)
    """The SQL that the source computes instead of reading the column; empty if it reads it."""
    key: MaskingKey | None = field(default=None, metadata=OMITTED)
    """The key that the expression finds in its session; None if it needs no key."""


@dataclass(frozen=True, slots=True)
class NotCopied:
    """An object of the source, or of a dropped target table, that a copy leaves out."""

    kind: str
    """The kind of object, in the plural: ``foreign keys``."""
    name: str
    remedy: str = ""
    """The statement or option that would create it in the target; empty without one."""
    table: str = ""
    """The target table to which it belongs; empty if it belongs to none."""
    dropped: bool = False
    """Whether it belonged to the target's old table, which the copy drops."""


@dataclass(frozen=True, slots=True)
class SequencePosition:
    """The position of a sequence."""

    last: int
    called: bool
    """Whether the sequence has returned `last`; otherwise `last` is its next value."""

    def following(self, step: int) -> int:
        """Return the next value of a sequence with the increment `step`."""
        return self.last + step * self.called


@dataclass(frozen=True, slots=True)
class Place:
    """The location to which a URL leads, without secrets, as assets and lineage name it."""

    scheme: str
    host: str
    """A server or a bucket; empty for this machine."""
    port: int | None
    database: str
    """The database's name, or the path of its file; if the URL leads to rows, their path."""
    located: bool = False
    """Whether the URL leads to the rows themselves, so that it needs no table name."""
    schemas_are_databases: bool = False
    """Whether a table's schema is its database, whatever the URL names."""
    kinds: tuple[str, ...] = ()
    """The names that catalogs of data assets use for the system."""

    @property
    def authority(self) -> str:
        """`host:port`, as in a URL."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port is None else f"{host}:{self.port}"

    @property
    def namespace(self) -> str:
        """The lineage name of the server, the bucket, or the kind of file."""
        return f"{self.scheme}://{self.authority}" if self.host else self.scheme

    def dataset(self, table: TableRef) -> str:
        """Return the lineage name of a table within the namespace.

        Follows OpenLineage: https://openlineage.io/docs/spec/naming.
        """
        if self.located:
            return self.database.rstrip("/") or "/"
        return ".".join(part for part in self._path(table) if part)

    def _path(self, table: TableRef) -> tuple[str, ...]:
        """Return the names that lead to a table, each once."""
        if self.schemas_are_databases:
            return (table.schema or self.database, table.name)
        return (self.database, table.schema, table.name)

    def uri(self, table: TableRef) -> str:
        """Return the URI of a table's asset.

        Its form is `scheme://host:port/database/schema/table`, `s3://bucket/key` or
        `file:///path`.
        """
        # A name is one segment of the path, whatever its characters; a path consists of segments.
        database, *names = (self.database,) if self.located else self._path(table)
        parts = [quote(database, safe="" if self.host and not self.located else "/=")]
        parts += [quote(part, safe="") for part in names if part]
        return f"{self.scheme}://{self.authority}/{'/'.join(parts).strip('/')}"
