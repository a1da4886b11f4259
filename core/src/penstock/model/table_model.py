"""The neutral form of a table's definition.

A catalog fills it, a dialect renders it. A part is either made in the target or listed as not
copied, with the statement that would make it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.model.tables import NotCopied, TableRef

BOOLEAN, INTEGER, DECIMAL, FLOAT, TEXT, BYTES, DATE, TIME, TIMESTAMP, MOMENT = (
    "boolean", "integer", "decimal", "float", "text", "bytes", "date", "time", "timestamp",
    "moment",
)  # fmt: skip
UUID, JSON, ENUM, SET, ARRAY, OTHER = "uuid", "json", "enum", "set", "array", "other"
"""Kinds of types."""


@dataclass(frozen=True, slots=True)
class ColumnType:
    """A column's type, as far as databases agree on it. The type in which its values travel is its
    trait `arrow`; this says what that does not."""

    kind: str = OTHER
    """`TEXT`, `ENUM` and so on; a `MOMENT` is a timestamp with a time zone."""
    length: int | None = None
    """The most characters of a text, or bytes of a binary type; None: any number."""
    unsigned: bool = False
    bits: int | None = None
    """Of a whole number, with its sign."""
    labels: tuple[str, ...] = ()
    """Of an `ENUM` or a `SET`."""


@dataclass(frozen=True, slots=True)
class Expression:
    text: str
    """In the words of the source's dialect."""
    meaning: Sequence[Any] | None = None
    """The neutral tree, see `sql.definitions.expressions` of the backends; None where it was not
    read."""


@dataclass(frozen=True, slots=True)
class Identity:
    """A column that the database numbers: IDENTITY, AUTO_INCREMENT, or a sequence of its own."""

    first: int = 1
    step: int = 1
    always: bool = False
    """A row that brings its own number is refused."""
    text: str = ""
    """The default that takes the numbers, where it is one."""


@dataclass(frozen=True, slots=True)
class Generated:
    """A column that the database computes."""

    expression: Expression
    stored: bool = True
    copied: bool = False
    """Its values are copied, and computed no more."""

    @property
    def as_copied(self) -> Generated:
        return replace(self, expression=Expression(self.expression.text), copied=True)


@dataclass(frozen=True, slots=True)
class ColumnModel:
    name: str
    type: ColumnType = ColumnType()
    native: str = ""
    """The type in the words of the source."""
    nullable: bool = True
    default: Expression | None = None
    on_update: Expression | None = None
    """What a row gets when it is changed, unless the change says otherwise."""
    identity: Identity | None = None
    generated: Generated | None = None
    comment: str = ""


@dataclass(frozen=True, slots=True)
class KeyModel:
    """A primary key, or a unique key in which NULLs are told apart."""

    name: str
    columns: tuple[str, ...]
    primary: bool
    index: bool = False
    """It is an index without a constraint."""
    text: str = ""
    """Its definition in the source's words, where it is more than its columns."""


@dataclass(frozen=True, slots=True)
class CheckModel:
    name: str
    test: Expression
    enforced: bool = True
    """All rows fulfil it, and new ones must."""


@dataclass(frozen=True, slots=True)
class IndexModel:
    name: str
    columns: tuple[str, ...] = ()
    """Empty where the index is not of whole columns, or of a method that only its dialect has."""
    descending: tuple[str, ...] = ()
    included: tuple[str, ...] = ()
    """Columns that are stored with its entries."""
    unique: bool = False
    predicate: Expression | None = None
    """The rows that it holds; None: all."""
    method: str = ""
    """Other than an ordered index: `hash`, `fulltext`, `gin`."""
    text: str = ""
    """Its definition in the source's words."""


@dataclass(frozen=True, slots=True)
class ForeignKeyModel:
    name: str
    columns: tuple[str, ...]
    target: TableRef
    """The table that it refers to, in the source."""
    referenced: tuple[str, ...]
    on_delete: str = ""
    """`CASCADE`, `SET NULL`, `SET DEFAULT`, `RESTRICT`; empty: NO ACTION."""
    on_update: str = ""
    deferrable: bool = False
    deferred: bool = False
    checked: bool = True
    """All rows fulfil it, and new ones must."""


@dataclass(frozen=True, slots=True)
class TableModel:
    columns: tuple[ColumnModel, ...] = ()
    keys: tuple[KeyModel, ...] = ()
    """The primary key first."""
    checks: tuple[CheckModel, ...] = ()
    indexes: tuple[IndexModel, ...] = ()
    foreign_keys: tuple[ForeignKeyModel, ...] = ()
    comment: str = ""
    partitioning: str = ""
    """How the source cuts it, in the source's words."""

    def column(self, name: str) -> ColumnModel:
        """
        Raises:
            StopIteration: no such column.
        """
        return next(column for column in self.columns if column.name == name)

    @property
    def types(self) -> Mapping[str, ColumnType]:
        """The type of each column."""
        return {column.name: column.type for column in self.columns}

    @property
    def lengths(self) -> Mapping[str, int]:
        """The most characters of the texts of a column, where that is limited."""
        return {
            column.name: column.type.length
            for column in self.columns
            if column.type.kind == TEXT and column.type.length is not None
        }

    def unmade(self) -> Iterator[NotCopied]:
        """What stands for each part where it is not made, in an order for people."""
        for key in self.keys:
            yield left_key(key)
        for check in self.checks:
            yield left_check(check)
        for column in self.columns:
            yield from left_of_column(column).values()
        for index in self.indexes:
            yield left_index(index)
        for foreign_key in self.foreign_keys:
            yield left_foreign_key(foreign_key)
        if self.comment:
            yield left_comment(self.comment)
        if self.partitioning:
            yield NotCopied(PARTITIONING, self.partitioning)

    def with_values(self) -> TableModel:
        """The model of a table into which the values of computed columns are copied."""
        return replace(
            self,
            columns=tuple(
                each
                if each.generated is None
                else replace(each, generated=each.generated.as_copied)
                for each in self.columns
            ),
        )

    def with_texts(self) -> TableModel:
        """The model of a table whose columns of enum types are texts that take any value."""
        return replace(
            self,
            columns=tuple(
                replace(each, type=ColumnType(TEXT)) if each.type.kind == ENUM else each
                for each in self.columns
            ),
        )

    def only(self, names: Sequence[str]) -> TableModel:
        """The model of a table that has some of the columns alone."""
        return replace(self, columns=tuple(each for each in self.columns if each.name in names))


@dataclass(frozen=True, slots=True)
class TableDefinition:
    """How a table is made."""

    dialect: str
    content: Mapping[str, Any]
    """JSON, in the terms of its own database, for targets that know the dialect."""
    model: TableModel = field(default_factory=TableModel)
    """For all others."""
    others: tuple[NotCopied, ...] = ()
    """What hangs on the table and has no form that other systems know: triggers, grants."""
    arrays: str = "refuse"
    """See `CopySpec.arrays`."""
    enums: str = "check"
    """See `CopySpec.enums`."""


PRIMARY_KEYS, UNIQUE_KEYS, CHECKS, INDEXES, FOREIGN_KEYS = (
    "primary keys", "unique constraints", "check constraints", "indexes", "foreign keys",
)  # fmt: skip
DEFAULTS, ON_UPDATES, IDENTITIES, GENERATED, COMMENTS, PARTITIONING = (
    "defaults", "defaults on update", "identity columns", "generated columns", "comments",
    "partitioning",
)  # fmt: skip
INDEX_ORDERS, INCLUDED, ACTIONS = (
    "orders of indexes", "included columns of indexes", "referential actions",
)  # fmt: skip
"""What parts are called, for people."""


def left_key(key: KeyModel) -> NotCopied:
    kind = PRIMARY_KEYS if key.primary else INDEXES if key.index else UNIQUE_KEYS
    return NotCopied(kind, f"{key.name} ({', '.join(key.columns)})" if key.name else
                     f"({', '.join(key.columns)})")  # fmt: skip


def left_check(check: CheckModel) -> NotCopied:
    return NotCopied(CHECKS, ": ".join(filter(None, (check.name, check.test.text))))


def left_of_column(column: ColumnModel) -> dict[str, NotCopied]:
    """By kind."""
    found = {}
    if column.identity is not None:
        found[IDENTITIES] = NotCopied(IDENTITIES, column.name)
    elif column.default is not None:
        found[DEFAULTS] = NotCopied(DEFAULTS, f"{column.name}: {column.default.text}")
    if column.on_update is not None:
        found[ON_UPDATES] = NotCopied(ON_UPDATES, f"{column.name}: {column.on_update.text}")
    if column.generated is not None:
        text = column.generated.expression.text
        found[GENERATED] = NotCopied(GENERATED, f"{column.name}: {text}")
    if column.comment:
        found[COMMENTS] = NotCopied(COMMENTS, f"{column.name}: {column.comment}")
    return found


def left_index(index: IndexModel) -> NotCopied:
    return NotCopied(INDEXES, index.name)


def left_foreign_key(foreign_key: ForeignKeyModel) -> NotCopied:
    return NotCopied(FOREIGN_KEYS, foreign_key.name)


def left_comment(text: str) -> NotCopied:
    return NotCopied(COMMENTS, text)
