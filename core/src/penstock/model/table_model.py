"""The neutral form of a table's definition.

A catalog fills it, a dialect renders it. Each part is either created in the target or listed as not
copied, with the statement that would create it.
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
    """A column's type, as far as databases agree on it.

    It adds to the trait `arrow`, which is the type in which the column's values travel.
    """

    kind: str = OTHER
    """`TEXT`, `ENUM` and so on; a `MOMENT` is a timestamp with a time zone."""
    length: int | None = None
    """The maximum number of characters of a text, or bytes of a binary type; None if unlimited."""
    unsigned: bool = False
    bits: int | None = None
    """The bits of a whole number, including its sign."""
    labels: tuple[str, ...] = ()
    """The labels of an `ENUM` or a `SET`."""


@dataclass(frozen=True, slots=True)
class Expression:
    """An expression of a default, a check, a generated column or a partial index."""

    text: str
    """The expression in the source's dialect."""
    meaning: Sequence[Any] | None = None
    """The neutral tree, see `sql.definitions.expressions` of the backends; None if not read."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The numbering of a column by the database: IDENTITY, AUTO_INCREMENT, or its own sequence."""

    first: int = 1
    step: int = 1
    always: bool = False
    """Whether the database rejects rows that bring their own number."""
    text: str = ""
    """The default that draws the numbers, if the column has one."""


@dataclass(frozen=True, slots=True)
class Generated:
    """A column that the database computes."""

    expression: Expression
    stored: bool = True
    copied: bool = False
    """Whether its values are copied, and no longer computed."""

    @property
    def as_copied(self) -> Generated:
        return replace(self, expression=Expression(self.expression.text), copied=True)


@dataclass(frozen=True, slots=True)
class ColumnModel:
    """A column, with everything that a target might create for it."""

    name: str
    type: ColumnType = ColumnType()
    native: str = ""
    """The type in the source's notation."""
    nullable: bool = True
    default: Expression | None = None
    on_update: Expression | None = None
    """The value that an update sets unless it sets another."""
    identity: Identity | None = None
    generated: Generated | None = None
    comment: str = ""
    definition: str = ""
    """The text after its name in the statement that creates it, in the source's notation; empty if
    unknown."""


@dataclass(frozen=True, slots=True)
class KeyModel:
    """A primary key, or a unique key that treats NULLs as distinct."""

    name: str
    columns: tuple[str, ...]
    primary: bool
    index: bool = False
    """Whether it is an index without a constraint."""
    text: str = ""
    """Its definition in the source's notation, if it is more than its columns."""


@dataclass(frozen=True, slots=True)
class CheckModel:
    """A check constraint of the table or of a column."""

    name: str
    test: Expression
    enforced: bool = True
    """Whether all rows satisfy it, and new ones must."""


@dataclass(frozen=True, slots=True)
class IndexModel:
    """An index, unless a `KeyModel` describes it."""

    name: str
    columns: tuple[str, ...] = ()
    """Empty if the index is not on whole columns, or its method exists only in its dialect."""
    descending: tuple[str, ...] = ()
    included: tuple[str, ...] = ()
    """Columns stored with the index entries."""
    unique: bool = False
    predicate: Expression | None = None
    """The condition of a partial index; None if it holds all rows."""
    method: str = ""
    """The method, if it is not an ordered index: `hash`, `fulltext`, `gin`."""
    text: str = ""
    """Its definition in the source's notation."""


@dataclass(frozen=True, slots=True)
class ForeignKeyModel:
    """A foreign key; the order of `columns` is that of `referenced`."""

    name: str
    columns: tuple[str, ...]
    target: TableRef
    """The referenced table, in the source."""
    referenced: tuple[str, ...]
    on_delete: str = ""
    """`CASCADE`, `SET NULL`, `SET DEFAULT`, `RESTRICT`; empty: NO ACTION."""
    on_update: str = ""
    deferrable: bool = False
    deferred: bool = False
    checked: bool = True
    """Whether all rows satisfy it, and new ones must."""


@dataclass(frozen=True, slots=True)
class TriggerModel:
    """A trigger, in the source's notation."""

    name: str
    event: str
    """Its timing and event, such as ``BEFORE INSERT``."""
    body: str


@dataclass(frozen=True, slots=True)
class TableModel:
    """The columns of a table, its constraints and its indexes."""

    columns: tuple[ColumnModel, ...] = ()
    keys: tuple[KeyModel, ...] = ()
    """The primary key first."""
    checks: tuple[CheckModel, ...] = ()
    indexes: tuple[IndexModel, ...] = ()
    foreign_keys: tuple[ForeignKeyModel, ...] = ()
    comment: str = ""
    partitioning: str = ""
    """The partitioning of the table, in the source's notation."""
    sorting: str = ""
    """The expressions by which the table keeps its rows sorted, in the source's notation."""
    options: str = ""
    """The options that follow the columns, in the source's notation."""
    completions: tuple[str, ...] = ()
    """Its remaining parts, as clauses of ALTER TABLE in the source's notation."""
    triggers: tuple[TriggerModel, ...] = ()

    def column(self, name: str) -> ColumnModel:
        """Return a column by its name.

        Raises:
            StopIteration: the table has no such column.
        """
        return next(column for column in self.columns if column.name == name)

    @property
    def types(self) -> Mapping[str, ColumnType]:
        """The type of each column."""
        return {column.name: column.type for column in self.columns}

    @property
    def lengths(self) -> Mapping[str, int]:
        """The maximum number of characters of each text column that has a limit."""
        return {
            column.name: column.type.length
            for column in self.columns
            if column.type.kind == TEXT and column.type.length is not None
        }

    def unmade(self) -> Iterator[NotCopied]:
        """Yield what to report for each part if it is not created, in display order."""
        for key in self.keys:
            yield omitted_key(key)
        for check in self.checks:
            yield omitted_check(check)
        for column in self.columns:
            yield from omitted_of_column(column).values()
        for index in self.indexes:
            yield omitted_index(index)
        for foreign_key in self.foreign_keys:
            yield omitted_foreign_key(foreign_key)
        if self.comment:
            yield omitted_comment(self.comment)
        if self.partitioning:
            yield NotCopied(PARTITIONING, self.partitioning)

    def with_values(self) -> TableModel:
        """Return the model of a table into which the values of computed columns are copied."""
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
        """Return the model of a table with unrestricted text columns in place of enums."""
        return replace(
            self,
            columns=tuple(
                replace(each, type=ColumnType(TEXT)) if each.type.kind == ENUM else each
                for each in self.columns
            ),
        )

    def only(self, names: Sequence[str]) -> TableModel:
        """Return the model of a table that has only the named columns."""
        return replace(self, columns=tuple(each for each in self.columns if each.name in names))


@dataclass(frozen=True, slots=True)
class TableDefinition:
    """The definition of a table."""

    dialect: str
    model: TableModel = field(default_factory=TableModel)
    """Its parts, each in a neutral form and in the notation of its own database."""
    others: tuple[NotCopied, ...] = ()
    """Objects that depend on the table and have no neutral form: triggers, grants."""
    omitted: tuple[NotCopied, ...] = ()
    """The parts, other than keys, that a copy on the same system does not create."""
    flavour: str = ""
    """The flavor of the dialect, if it has several."""
    native: Any = None
    """Details that only targets of the same database can read; None if there are none."""
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
"""What messages call the parts."""


def omitted_key(key: KeyModel) -> NotCopied:
    """Return what to report if a key is not created."""
    kind = PRIMARY_KEYS if key.primary else INDEXES if key.index else UNIQUE_KEYS
    return NotCopied(kind, f"{key.name} ({', '.join(key.columns)})" if key.name else
                     f"({', '.join(key.columns)})")  # fmt: skip


def omitted_check(check: CheckModel) -> NotCopied:
    """Return what to report if a check is not created."""
    return NotCopied(CHECKS, ": ".join(filter(None, (check.name, check.test.text))))


def omitted_of_column(column: ColumnModel) -> dict[str, NotCopied]:
    """Return what to report if parts of a column are not created, by kind."""
    omitted = {}
    if column.identity is not None:
        omitted[IDENTITIES] = NotCopied(IDENTITIES, column.name)
    elif column.default is not None:
        omitted[DEFAULTS] = NotCopied(DEFAULTS, f"{column.name}: {column.default.text}")
    if column.on_update is not None:
        omitted[ON_UPDATES] = NotCopied(ON_UPDATES, f"{column.name}: {column.on_update.text}")
    if column.generated is not None:
        text = column.generated.expression.text
        omitted[GENERATED] = NotCopied(GENERATED, f"{column.name}: {text}")
    if column.comment:
        omitted[COMMENTS] = NotCopied(COMMENTS, f"{column.name}: {column.comment}")
    return omitted


def omitted_index(index: IndexModel) -> NotCopied:
    """Return what to report if an index is not created."""
    return NotCopied(INDEXES, index.name)


def omitted_foreign_key(foreign_key: ForeignKeyModel) -> NotCopied:
    """Return what to report if a foreign key is not created."""
    return NotCopied(FOREIGN_KEYS, foreign_key.name)


def omitted_comment(text: str) -> NotCopied:
    """Return what to report if the comment of a table is not created."""
    return NotCopied(COMMENTS, text)
