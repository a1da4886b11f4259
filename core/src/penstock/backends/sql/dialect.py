"""How a database writes SQL: one object for each database."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from string import whitespace
from typing import Any

from penstock.backends.sql.catalog.described import TableQuery
from penstock.backends.sql.masking import Masking
from penstock.backends.sql.rows.bounds import WHOLE_NUMBERS, check_whole, decimal, hexadecimal
from penstock.errors import PlanningError
from penstock.model import values
from penstock.model.drift import ADD, RENAME, ColumnChange
from penstock.model.extents import Bound, Key
from penstock.model.table_model import Identity
from penstock.model.tables import TableRef

Type = Any
"""A type as the database's driver describes it."""


_ENDS = f";{whitespace}"


def raw(text: str) -> str:
    """SQL that somebody wrote, as one operand; a comment at its end ends with its line, and a
    semicolon ends nothing."""
    return f"(\n{text.rstrip(_ENDS)}\n)"


BYTES = "C"
"""The collation of a key that is compared by the bytes of its text in UTF-8."""
NOW, UTC_NOW, TODAY, NEW_UUID = "now", "now in UTC", "today", "new uuid"
CHARACTERS, OCTETS, LOWER, UPPER = "characters", "octets", "lower", "upper"
"""Functions of a text; its octets are those of UTF-8."""
NEVER = "1 = 0"
DAY = 86_400
"""A condition that no row meets."""


class Dialect(ABC):
    """What conditions are written with, and what a table is made with that its source's has, too.
    The defaults are those of the standard."""

    name: str
    """The database's, for messages."""
    functions: Mapping[str, str] = {NOW: "CURRENT_TIMESTAMP"}
    """How a default asks for one of `NOW`, `UTC_NOW`, `TODAY` and `NEW_UUID`, as far as there is a
    way."""
    calls: Mapping[str, str] = {LOWER: "lower", UPPER: "upper"}
    """What the functions of a text are called; those that are missing have no like."""
    truth = ("FALSE", "TRUE")

    def ident(self, name: str) -> str:
        return '"' + name.replace('"', '""') + '"'

    def table(self, table: TableRef) -> str:
        return f"{self.ident(table.schema)}.{self.ident(table.name)}"

    def literal(self, text: str) -> str:
        """
        Raises:
            PlanningError: it holds a NUL, which no text in SQL can.
        """
        if "\0" in text:
            raise PlanningError(f"expected a text without NUL, found {values.value(repr(text))}")
        return "'" + text.replace("'", "''") + "'"

    def exactly(self, value: str) -> str:
        """A text that is equal to no other one."""
        return value

    def liked(self, value: str, pattern: str) -> str:
        """Whether a text is like a pattern, whose letters are in the case that they are in."""
        return f"{self.exactly(value)} LIKE {pattern}"

    def wide(self, value: str) -> str:
        """A whole number in eight bytes."""
        return f"CAST({value} AS bigint)"

    def default(self, literal: str, kind: str) -> str:
        """A literal as a default of a column that holds such a kind of values."""
        return literal

    def joined(self, texts: Sequence[str]) -> str:
        return " || ".join(texts)

    def binary(self, digits: str) -> str:
        """Bytes by their hexadecimal digits."""
        return f"X'{digits}'"

    # What a table is made with that another system's has; empty where the database has no such.

    longest_name = 128
    """Bytes of an index's or a constraint's name."""
    constraints_by_table = False
    """A constraint's name belongs to its table; else to the schema or the database."""
    has_checks = True
    checks_with_table = False
    """They are made with a table that is made to be loaded, and not afterwards."""
    refuses_numbers = False
    """A row that brings a number of its own is refused, where the database numbers the column."""
    has_sequences = False
    """A column is numbered by a sequence, which is made once the table is loaded."""
    has_indexes = True
    """They are made by CREATE INDEX."""
    index_kinds: Mapping[str, str] = {}
    """The word before INDEX, by the method of an index, see `IndexModel`."""
    indexes_some = False
    """An index may hold the rows of a condition alone."""
    includes = False
    """An index may have columns that are no part of its key."""
    descends = True
    """The columns of an index have an order each."""
    has_foreign_keys = True
    numbers_nullable = False
    """A column that is numbered may be NULL."""
    defers = False
    """A foreign key may be checked at the end of a transaction."""
    alters = True
    """Constraints can be given to a table that is there."""

    def numbered(self, first: int, step: int) -> str:
        """What follows the type of a column that the database numbers."""
        return ""

    def identity_made(self, table: TableRef, column: str, type_: str, identity: Identity) -> str:
        """The statements that have the database number a column of a table that is there."""
        return ""

    def fitting(self, default: str, type_: str) -> str:
        """A default, or a moment that follows ON UPDATE, as a column of a type takes it; empty
        where it takes none."""
        return default

    def set_on_update(self, moment: str) -> str:
        """What follows the default of a column that gets a moment when its row is changed."""
        return ""

    def commented(self, text: str) -> str:
        """The comment of a column, as a part of it."""
        return ""

    def table_commented(self, text: str) -> str:
        """The comment of a table, as an option of the statement that makes it."""
        return ""

    def comment_made(self, table: TableRef, column: str, text: str) -> str:
        """The statement that comments a column, or the table where none is named."""
        return ""

    def index_part(self, column: str, type_: str) -> str:
        """A column of an index, or as much of its values as it can have."""
        return self.ident(column)

    def default_set(self, table: TableRef, column: str, text: str) -> str:
        """The statement that gives a column a default; empty where only a new table takes one."""
        column = self.ident(column)
        return f"ALTER TABLE {self.table(table)} ALTER COLUMN {column} SET DEFAULT {text}"

    def generated(self, text: str) -> str:
        """What follows the type of a column that is computed and stored."""
        return ""

    def generated_made(self, table: TableRef, column: str, type_: str, text: str) -> str:
        """The statement that has a column computed.

        Parameters:
            type_, text: in the source's words.
        """
        if not self.generated(text):
            return ""
        name = self.ident(column)
        made = f"{name} {type_} {self.generated(text)}"
        return f"ALTER TABLE {self.table(table)} DROP COLUMN {name}, ADD COLUMN {made}"

    def key_made(self, table: TableRef, columns: Sequence[str], *, primary: bool) -> str:
        """The statement that adds a key."""
        kind = "PRIMARY KEY" if primary else "UNIQUE"
        listed = ", ".join(map(self.ident, columns))
        return f"ALTER TABLE {self.table(table)} ADD {kind} ({listed})"

    def check_made(self, table: TableRef, name: str, text: str) -> str:
        """The statement that adds a check.

        Parameters:
            name: empty: the database gives it one.
        """
        named = f"CONSTRAINT {self.ident(name)} " if name else ""
        if not (self.alters and self.has_checks):
            return ""
        return f"ALTER TABLE {self.table(table)} ADD {named}CHECK ({self.test(text)})"

    def test(self, text: str) -> str:
        """A test that holds, too, where it is NULL."""
        return text

    def foreign_key_made(self, table: TableRef, name: str, definition: str) -> str:
        """The statement that adds a foreign key."""
        if not (self.alters and self.has_foreign_keys):
            return ""
        return f"ALTER TABLE {self.table(table)} ADD CONSTRAINT {self.ident(name)} {definition}"

    def referential(self, event: str, action: str) -> str:
        """An action of a foreign key as the database writes it.

        Parameters:
            event: `DELETE` or `UPDATE`.
            action: see `ForeignKeyModel`.
        """
        return action

    def key(self, key: Key) -> str:
        return raw(key.text) if key.expression else self.ident(key.text)

    @abstractmethod
    def bound(self, bound: Bound) -> str:
        """A bound as a value.

        Raises:
            PlanningError: the text is no value of the type.
        """

    def greatest(self, value: str) -> str:
        """The greatest value of many rows; NULL of none."""
        return f"max({value})"

    def earlier(self, value: str, tag: str, seconds: int) -> str:
        """A date or a timestamp that is earlier, of the same type; of a date by whole days."""
        if tag == "date":
            return f"CAST({value} - INTERVAL '{-(-seconds // DAY)}' DAY AS date)"
        return f"{value} - INTERVAL '{seconds}' SECOND"

    def comparable(self, tag: str, value: str) -> str:
        """A value of a key as partitions compare it, if the key names no collation."""
        return value

    def compared(self, key: Key, tag: str) -> str:
        """A key as partitions compare it.

        Raises:
            PlanningError: another system's collation.
        """
        self.check_collation(key)
        return self.comparable(tag, self.key(key))

    def collated(self, key: Key, tag: str, value: str) -> str:
        """Any value as partitions compare those of a key: one of a list, for instance, which has
        no collation of its own, or another one."""
        return self.comparable(tag, value)

    def bounded(self, key: Key, bound: Bound) -> str:
        """A bound as partitions compare a key with it."""
        return self.bound(bound)

    def check_collation(self, key: Key) -> None:
        if key.collation not in ("", BYTES):
            raise PlanningError(
                f"--key {key.text}: {self.name} cannot compare by the source's collation "
                f"{key.collation}"
            )

    def blocks(self, lower: int, upper: int | None) -> Sequence[str]:
        """Conditions that select the rows of some blocks.

        Raises:
            PlanningError: tables are not cut by blocks.
        """
        raise PlanningError(f"{self.name} does not cut tables by blocks")

    @abstractmethod
    def hashed(self, value: str) -> str:
        """A whole number, not negative, that depends on a value's text alone; NULL of NULL."""


class CatalogDialect(Dialect):
    """What `SqlSource` and `SqlTarget` ask with, besides conditions."""

    types: Mapping[str, str]
    """The type for each tag of a `Bound`."""
    ranged: tuple[str, ...]
    """Tags of the types whose text is exact and whose order is total."""
    now = "now()"
    counted = "count(*)"
    """How many rows, as a number that can be multiplied."""
    ddl_commits = False
    """A statement that makes or drops a table ends the transaction."""
    unless_there = "IF NOT EXISTS "
    """What follows CREATE TABLE so that one of the name stays; empty where nothing does that."""
    computed = "CASE WHEN is_generated = 'ALWAYS' THEN 1 ELSE 0 END"
    """Of a row of the information schema's columns: 1 for one that the table computes."""

    def cast(self, value: str, type_: str) -> str:
        return f"CAST({value} AS {type_})"

    def text(self, value: str) -> str:
        """A value of any type as its text."""
        return self.cast(value, self.types["text"])

    def beginning(self, text: str, length: int) -> str:
        """The first characters of a text."""
        return f"left({text}, {length})"

    def limited(self, select: str, count: int) -> str:
        """A SELECT that ends after so many rows."""
        return f"{select} LIMIT {count}"

    def placeholder(self, number: int) -> str:
        """What stands for a statement's n-th value, counted from 1."""
        return "?"

    # Tables

    @property
    def relations(self) -> str:
        """A query for schema, name and kind (`VIEW`, or another) of all tables and views; its value
        is what `Session.catalog` says."""
        return (
            "SELECT table_schema, table_name, table_type FROM information_schema.tables"
            f" WHERE table_catalog = {self.placeholder(1)} ORDER BY table_schema, table_name"
        )

    @property
    def column_facts(self) -> TableQuery:
        """A query for the columns of tables: name, whether it may be NULL (`YES`), default, and
        `computed`."""
        return TableQuery(
            f"column_name, is_nullable, column_default, {self.computed}",
            "information_schema.columns",
            "table_schema",
            "table_name",
            "table_catalog = {catalog}",
        )

    # Loading

    def schema_made(self, name: str) -> Sequence[str]:
        """The statement that makes a schema where there is none; nothing without schemas."""
        return (f"CREATE SCHEMA IF NOT EXISTS {self.ident(name)}",)

    def emptied(self, table: TableRef) -> str:
        """The statement that takes all rows out of a table."""
        return f"TRUNCATE TABLE {self.table(table)}"

    def dropped(self, table: TableRef) -> str:
        """The statement that drops a table where it is there."""
        return f"DROP TABLE IF EXISTS {self.table(table)}"

    def made_like(self, table: TableRef, like: TableRef, columns: Sequence[str]) -> str:
        """The statement that makes an empty table with some columns of another one: of the same
        types, without its keys and checks."""
        listed = ", ".join(map(self.ident, columns))
        empty = self.limited(f"SELECT {listed} FROM {self.table(like)}", 0)
        return f"CREATE TABLE {self.table(table)} AS {empty}"

    def renamed(self, table: TableRef, name: str) -> str:
        """The statement that gives a table another name in its schema."""
        return f"ALTER TABLE {self.table(table)} RENAME TO {self.ident(name)}"

    def column_changed(self, table: TableRef, change: ColumnChange) -> str:
        """The statement that makes a change of a column."""
        column = self.ident(change.column)
        if change.kind == ADD:
            action = f"ADD COLUMN {column} {change.text}"
        elif change.kind == RENAME:
            action = f"RENAME COLUMN {self.ident(change.was)} TO {column}"
        else:
            action = self.column_widened(column, change)
        return f"ALTER TABLE {self.table(table)} {action}"

    def column_widened(self, column: str, change: ColumnChange) -> str:
        """What of `ALTER TABLE` gives a column another type, or has it take NULL; for databases
        that widen columns."""
        raise NotImplementedError

    def exchanged(self, table: TableRef, new: TableRef) -> Sequence[str]:
        """The statements that put a table in another one's place, which goes."""
        return (f"DROP TABLE {self.table(table)}", self.renamed(new, table.name))

    def indexes_dropped(self, table: TableRef, names: Sequence[str]) -> str:
        """One statement, for databases whose `TargetTables.deferrable` names some."""
        raise NotImplementedError

    def indexes_made(self, table: TableRef, definitions: Sequence[str]) -> str:
        """As few statements as can be.

        Parameters:
            definitions: as the database's catalog writes them.
        """
        raise NotImplementedError

    def foreign_key_dropped(self, table: TableRef, name: str) -> str:
        return f"ALTER TABLE {self.table(table)} DROP CONSTRAINT {self.ident(name)}"

    def differ(self, names: Sequence[str]) -> str:
        """Whether the rows `t` and `s` differ in one of these columns."""
        columns = map(self.ident, names)
        return " OR ".join(f"t.{name} IS DISTINCT FROM s.{name}" for name in columns) or NEVER

    def respelled(self, key: Sequence[str]) -> str:
        """Whether the rows `t` and `s` write equal keys differently."""
        return NEVER

    def spellings(self, staged: str, key: Sequence[str]) -> str:
        """A query for how rows write one key that is there twice, where they may write it
        differently; empty where they may not."""
        return ""

    def merge(self, table: str, staged: str, key: Sequence[str], rest: Sequence[str]) -> str:
        """The statement that updates the rows of a table that differ from those staged for the same
        key, and inserts the others.

        Parameters:
            key, rest: names of the columns, which both tables have.
        """
        keys, others = list(map(self.ident, key)), list(map(self.ident, rest))
        same = " AND ".join(f"t.{name} = s.{name}" for name in keys)
        update = ""
        if others:
            changes = ", ".join(f"{name} = s.{name}" for name in others)
            update = f" WHEN MATCHED AND ({self.differ(rest)}) THEN UPDATE SET {changes}"
        values = ", ".join(f"s.{name}" for name in [*keys, *others])
        return (
            f"MERGE INTO {table} AS t USING {staged} AS s ON {same}{update}"
            f" WHEN NOT MATCHED THEN INSERT ({', '.join([*keys, *others])}) VALUES ({values})"
        )

    # Rows that are found by their keys, NULL by NULL: those `t` of a table whose keys the rows `s`
    # of another one have.

    def _found(self, keys: str, key: Sequence[str]) -> str:
        names = map(self.ident, key)
        match = " AND ".join(f"t.{name} IS NOT DISTINCT FROM s.{name}" for name in names)
        return f"EXISTS (SELECT 1 FROM {keys} AS s WHERE {match})"

    def delete_found(self, table: str, keys: str, key: Sequence[str]) -> str:
        return f"DELETE FROM {table} AS t WHERE {self._found(keys, key)}"

    def change_found(
        self, table: str, keys: str, key: Sequence[str], change: str, tested: str
    ) -> str:
        """
        Parameters:
            change: what follows SET.
            tested: a condition on the row `t`.
        """
        return f"UPDATE {table} AS t SET {change} WHERE {tested} AND {self._found(keys, key)}"

    # Bounds

    @abstractmethod
    def tag_of(self, type_: Type) -> str:
        """The tag that bounds of a type have."""

    def type_of(self, tag: str) -> str:
        """
        Raises:
            PlanningError: another system's tag.
        """
        if tag not in self.types:
            raise PlanningError(f"{self.name} has no type {tag!r}, which a bound of the key has")
        return self.types[tag]

    def cast_type(self, type_: Type) -> str:
        """What makes values ones of a column's type, for `cast`."""
        # Of a text without the column's length: one that is longer is another value.
        return self.types["text"] if self.tag_of(type_) == "text" else str(type_)

    def bound(self, bound: Bound) -> str:
        if bound.type == "numeric":
            return self.number(bound)
        if bound.type == "bytea":
            return self.binary(hexadecimal(bound))
        if bound.type in WHOLE_NUMBERS:
            check_whole(bound)
        return self.cast(self.literal(bound.text), self.type_of(bound.type))

    def number(self, bound: Bound) -> str:
        """A bound that is a decimal number, exactly."""
        return decimal(bound)[0]

    def hashed(self, value: str) -> str:
        # A database's own hash function may change with its version.
        return self.digest(self.text(value))

    def bound_text(self, tag: str, value: str) -> str:
        """A value as the text of a bound, the same in every database."""
        return self.text(value)

    # Masks

    masking: Masking | None = None
    """What masks are computed with; None where none are."""

    def mask_tag(self, type_: Type) -> str:
        """The tag of a type, as masks tell types apart."""
        return self.tag_of(type_)

    # Checksums

    @abstractmethod
    def canonical(self, value: str, type_: Type, kind: str) -> str:
        """The canonical text of a value; NULL of NULL.

        Parameters:
            kind: see `ColumnPair.canonical`.
        """

    @abstractmethod
    def framed(self, text: str) -> str:
        """A text with its length in bytes and a colon before it, or `-` for NULL: where it ends
        can be told, whatever it holds."""

    @abstractmethod
    def digest(self, text: str) -> str:
        """The first 60 bits of the MD5 of a text, as a whole number."""

    def total(self, digest: str) -> str:
        """The sum of the digests of many rows as a text, exactly: it has more than 64 bits. `0`
        for no rows."""
        return self.text(f"coalesce(sum({digest}), 0)")

    # Windows of time: for databases that have the strategy `time`.

    def interval(self, text: str) -> str:
        """A length of time as somebody wrote it.

        Raises:
            PlanningError: tables are not cut by windows of time.
        """
        raise PlanningError(f"{self.name} does not cut tables by windows of time")

    def is_positive(self, interval: str) -> str:
        """Whether an interval is longer than nothing."""
        raise NotImplementedError

    def is_finite(self, value: str) -> str:
        """Whether a date or timestamp is one."""
        raise NotImplementedError

    def window_starts(self, width: str, tag: str, first: str, last: str, count: int) -> str:
        """A SELECT of one column, ``start``: starts of windows of one width, the first at the
        beginning of a year, week, day or hour, the last at `last` or before it.

        Parameters:
            first, last: values of the key's type.
            count: so many at most.
        """
        raise NotImplementedError
