"""How a database writes SQL: one object per database."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from string import whitespace
from typing import Any

from penstock.backends.sql.catalog.catalog_facts import TableQuery
from penstock.backends.sql.masking import Masking
from penstock.backends.sql.rows.bounds import WHOLE_NUMBERS, check_whole, decimal, hexadecimal
from penstock.errors import PlanningError
from penstock.model import values
from penstock.model.drift import ADD, RENAME, ColumnChange
from penstock.model.extents import Bound, Key
from penstock.model.table_model import Identity
from penstock.model.tables import TableRef

Type = Any
"""A type as described by the database's driver."""


_ENDS = f";{whitespace}"


def raw(text: str) -> str:
    """Return a user's SQL as one operand.

    A comment at its end ends with its line, and a semicolon has no effect.
    """
    return f"(\n{text.rstrip(_ENDS)}\n)"


BYTES = "C"
"""The collation of a key that is compared by the bytes of its text in UTF-8."""
NOW, UTC_NOW, TODAY, NEW_UUID = "now", "now in UTC", "today", "new uuid"
CHARACTERS, OCTETS, LOWER, UPPER = "characters", "octets", "lower", "upper"
"""Functions of a text; its octets are those in UTF-8."""
NEVER = "1 = 0"
"""A condition that no row meets."""
MOST_IN_CHAIN = 64
"""Texts joined in one expression; some databases limit how deep expressions are nested."""
DAY = 86_400
"""Seconds."""


class Dialect(ABC):
    """The syntax for conditions, and for the parts that a table like the source's has.

    The defaults are those of the standard.
    """

    name: str
    """The database's name, for messages."""
    functions: Mapping[str, str] = {NOW: "CURRENT_TIMESTAMP"}
    """The expressions in a default for `NOW`, `UTC_NOW`, `TODAY` and `NEW_UUID`, if supported."""
    calls: Mapping[str, str] = {LOWER: "lower", UPPER: "upper"}
    """The names of text functions; missing ones have no equivalent."""
    truth = ("FALSE", "TRUE")

    def ident(self, name: str) -> str:
        return '"' + name.replace('"', '""') + '"'

    def table(self, table: TableRef) -> str:
        return f"{self.ident(table.schema)}.{self.ident(table.name)}"

    def literal(self, text: str) -> str:
        """Return a text literal.

        Raises:
            PlanningError: the text contains a NUL, which SQL text cannot.
        """
        if "\0" in text:
            raise PlanningError(f"expected a text without NUL, found {values.value(repr(text))}")
        return "'" + text.replace("'", "''") + "'"

    def exactly(self, value: str) -> str:
        """Return a text that equals no other text."""
        return value

    def like_condition(self, value: str, pattern: str) -> str:
        """Return a case-sensitive LIKE."""
        return f"{self.exactly(value)} LIKE {pattern}"

    def wide(self, value: str) -> str:
        """Return a whole number in eight bytes."""
        return f"CAST({value} AS bigint)"

    def default(self, literal: str, kind: str) -> str:
        """Return a literal as the default of a column that holds values of a kind."""
        return literal

    def joined(self, texts: Sequence[str]) -> str:
        return " || ".join(texts)

    def joined_all(self, texts: Sequence[str]) -> str:
        """Return any number of texts, none of which is NULL, one after the other.

        As a tree: some databases limit how deep an expression is nested.
        """
        while len(texts) > MOST_IN_CHAIN:
            texts = [
                f"({self.joined(texts[place : place + MOST_IN_CHAIN])})"
                for place in range(0, len(texts), MOST_IN_CHAIN)
            ]
        return self.joined(texts)

    def binary(self, digits: str) -> str:
        """Return a binary literal from hexadecimal digits."""
        return f"X'{digits}'"

    # Parts of a table like another system's; empty if the database does not support them.

    longest_name = 128
    """The maximum bytes of an index's or constraint's name."""
    constraints_by_table = False
    """Whether constraint names belong to their table, instead of the schema or database."""
    has_checks = True
    checks_with_table = False
    """Whether checks are created with a new table that is about to be loaded, and not afterwards.
    """
    refuses_numbers = False
    """Whether a numbered column rejects rows with their own numbers."""
    has_sequences = False
    """Whether a numbered column uses a sequence, which is created after the load."""
    has_indexes = True
    """Whether indexes are created by CREATE INDEX."""
    index_kinds: Mapping[str, str] = {}
    """The word before INDEX, by the method of an index, see `IndexModel`."""
    has_partial_indexes = False
    """Whether an index may be limited to rows that meet a condition."""
    includes = False
    """Whether an index may include columns outside its key."""
    descends = True
    """Whether each column of an index has its own order."""
    has_foreign_keys = True
    numbers_nullable = False
    """Whether a numbered column may be NULL."""
    defers = False
    """Whether a foreign key may be checked at the end of a transaction."""
    alters = True
    """Whether constraints can be added to an existing table."""

    def numbering_clause(self, first: int, step: int) -> str:
        """Return what follows the type of a column that the database numbers."""
        return ""

    def identity_statements(
        self, table: TableRef, column: str, type_: str, identity: Identity
    ) -> str:
        """Return statements that make the database number an existing column.

        Args:
            table: the table.
            column: the name of the column.
            type_: the name of the type.
            identity: how the column is numbered.
        """
        return ""

    def fitted_default(self, default: str, type_: str) -> str:
        """Return a default, or a moment after ON UPDATE, in a type's form; empty if none."""
        return default

    def set_on_update(self, moment: str) -> str:
        """Return the clause that sets a column to a moment whenever its row changes."""
        return ""

    def comment_clause(self, text: str) -> str:
        """Return a column's comment as part of the column."""
        return ""

    def table_comment_option(self, text: str) -> str:
        """Return a table's comment as an option of CREATE TABLE."""
        return ""

    def comment_statement(self, table: TableRef, column: str, text: str) -> str:
        """Return the statement that comments on a column; without a column, on the table.

        Args:
            table: the table.
            column: the name of the column; empty for the table.
            text: the comment.
        """
        return ""

    def index_part(self, column: str, type_: str) -> str:
        """Return a column of an index, or the part of its values that can be indexed."""
        return self.ident(column)

    def default_set(self, table: TableRef, column: str, text: str) -> str:
        """Return the statement that sets a default; empty if only a new table accepts it.

        Args:
            table: the table.
            column: the name of the column.
            text: the default, as an expression.
        """
        column = self.ident(column)
        return f"ALTER TABLE {self.table(table)} ALTER COLUMN {column} SET DEFAULT {text}"

    def generated_clause(self, text: str) -> str:
        """Return what follows the type of a column that is computed and stored."""
        return ""

    def generated_statement(self, table: TableRef, column: str, type_: str, text: str) -> str:
        """Return the statement that makes a column computed.

        Args:
            table: the table.
            column: the name of the column.
            type_: the type, in the source's dialect.
            text: the expression, in the source's dialect.
        """
        if not self.generated_clause(text):
            return ""
        name = self.ident(column)
        definition = f"{name} {type_} {self.generated_clause(text)}"
        return f"ALTER TABLE {self.table(table)} DROP COLUMN {name}, ADD COLUMN {definition}"

    def key_statement(self, table: TableRef, columns: Sequence[str], *, primary: bool) -> str:
        """Return the statement that adds a key.

        Args:
            table: the table.
            columns: the names of the columns.
            primary: whether it is the primary key.
        """
        kind = "PRIMARY KEY" if primary else "UNIQUE"
        listed = ", ".join(map(self.ident, columns))
        return f"ALTER TABLE {self.table(table)} ADD {kind} ({listed})"

    def check_statement(self, table: TableRef, name: str, text: str) -> str:
        """Return the statement that adds a check.

        Args:
            table: the table.
            name: the check's name; if empty, the database chooses one.
            text: the condition.
        """
        constraint = f"CONSTRAINT {self.ident(name)} " if name else ""
        if not (self.alters and self.has_checks):
            return ""
        return f"ALTER TABLE {self.table(table)} ADD {constraint}CHECK ({self.test(text)})"

    def test(self, text: str) -> str:
        """Return a condition that also holds if it is NULL."""
        return text

    def foreign_key_statement(self, table: TableRef, name: str, definition: str) -> str:
        """Return the statement that adds a foreign key.

        Args:
            table: the table.
            name: the name of the constraint; empty to let the database choose it.
            definition: the text from FOREIGN KEY on.
        """
        if not (self.alters and self.has_foreign_keys):
            return ""
        return f"ALTER TABLE {self.table(table)} ADD CONSTRAINT {self.ident(name)} {definition}"

    def referential(self, event: str, action: str) -> str:
        """Return an action of a foreign key as the database writes it.

        Args:
            event: `DELETE` or `UPDATE`.
            action: as in `ForeignKeyModel`.
        """
        return action

    def key(self, key: Key) -> str:
        return raw(key.text) if key.expression else self.ident(key.text)

    @abstractmethod
    def bound(self, bound: Bound) -> str:
        """Return a bound as a value.

        Raises:
            PlanningError: the text is not a value of the type.
        """

    def greatest(self, value: str) -> str:
        """Return the greatest value of many rows; NULL for no rows."""
        return f"max({value})"

    def earlier(self, value: str, tag: str, seconds: int) -> str:
        """Return an earlier date or timestamp of the same type; a date moves by whole days.

        Args:
            value: the value, as an expression.
            tag: the type of the value, as in `Bound`.
            seconds: the distance, in seconds.
        """
        if tag == "date":
            return f"CAST({value} - INTERVAL '{-(-seconds // DAY)}' DAY AS date)"
        return f"{value} - INTERVAL '{seconds}' SECOND"

    def comparable(self, tag: str, value: str) -> str:
        """Return a key's value as partitions compare it, if the key names no collation."""
        return value

    def compared_key(self, key: Key, tag: str) -> str:
        """Return a key as partitions compare it.

        Raises:
            PlanningError: the collation is another system's.
        """
        self.check_collation(key)
        return self.comparable(tag, self.key(key))

    def collated_value(self, key: Key, tag: str, value: str) -> str:
        """Return any value as partitions compare the key's values.

        For instance a value of a list, which has no collation of its own, or a different one.

        Args:
            key: the key.
            tag: the type of the value, as in `Bound`.
            value: the value, as an expression.
        """
        return self.comparable(tag, value)

    def bound_operand(self, key: Key, bound: Bound) -> str:
        """Return a bound as partitions compare the key with it."""
        return self.bound(bound)

    def comparison(self, left: str, operator: str, right: str) -> str:
        """Return a comparison of two values of one built-in type."""
        return f"{left} {operator} {right}"

    def listed(self, value: str, tag: str, values: Sequence[str], *, negated: bool) -> str:
        """Return the test whether a value is, or with `negated` is not, one of several.

        Args:
            value: the value, as an expression; of a NULL neither is true.
            tag: the tag of the values' type, as in `Bound`.
            values: the values, as expressions.
            negated: whether it must be none of them.
        """
        return f"{value} {'NOT IN' if negated else 'IN'} ({', '.join(values)})"

    def in_bucket(self, number: str, modulus: int, remainder: int) -> str:
        """Return the test for a bucket of a number from `hash_number`; a NULL is in the first."""
        return f"coalesce({number} % {modulus}, 0) = {remainder}"

    counted = "count(*)"
    """The number of rows."""

    def check_collation(self, key: Key) -> None:
        if key.collation not in ("", BYTES):
            raise PlanningError(
                f"--key {key.text}: {self.name} cannot compare by the source's collation "
                f"{key.collation}"
            )

    def blocks(self, lower: int, upper: int | None) -> Sequence[str]:
        """Return conditions that select the rows in some blocks.

        Raises:
            PlanningError: tables cannot be partitioned by blocks.
        """
        raise PlanningError(f"{self.name} cannot partition tables by blocks")

    @abstractmethod
    def hash_number(self, value: str) -> str:
        """Return a non-negative number that depends only on a value's text; NULL for NULL."""


class CatalogDialect(Dialect):
    """The syntax that `SqlSource` and `SqlTarget` need besides conditions."""

    types: Mapping[str, str]
    """The type for each tag of a `Bound`."""
    ranged: tuple[str, ...]
    """The tags of types whose text is exact and whose order is total."""
    now = "now()"
    counted = "count(*)"
    """The row count, as a number that can be multiplied."""
    ddl_commits = False
    """Whether creating or dropping a table ends the transaction."""
    if_not_exists = "IF NOT EXISTS "
    """What follows CREATE TABLE to keep an existing table; empty if there is no such clause."""
    computed = "CASE WHEN is_generated = 'ALWAYS' THEN 1 ELSE 0 END"
    """In the information schema's columns: 1 for a computed column."""

    def cast(self, value: str, type_: str) -> str:
        return f"CAST({value} AS {type_})"

    def text(self, value: str) -> str:
        """Return a value of any type as text."""
        return self.cast(value, self.types["text"])

    def beginning(self, text: str, length: int) -> str:
        """Return the first characters of a text."""
        return f"left({text}, {length})"

    def limited_query(self, select: str, count: int) -> str:
        """Return a SELECT limited to a number of rows."""
        return f"{select} LIMIT {count}"

    def placeholder(self, number: int) -> str:
        """Return the placeholder of a statement's n-th value, counted from 1."""
        return "?"

    # Tables

    @property
    def relations(self) -> str:
        """A query for schema, name and kind (`VIEW` or another) of all tables and views.

        Its value is `Session.catalog`.
        """
        return (
            "SELECT table_schema, table_name, table_type FROM information_schema.tables"
            f" WHERE table_catalog = {self.placeholder(1)} ORDER BY table_schema, table_name"
        )

    @property
    def column_facts(self) -> TableQuery:
        """A query for columns of tables: name, nullability (`YES`), default, and `computed`."""
        return TableQuery(
            f"column_name, is_nullable, column_default, {self.computed}",
            "information_schema.columns",
            "table_schema",
            "table_name",
            "table_catalog = {catalog}",
        )

    @property
    def schemas(self) -> str:
        """A query for the names of all schemas. Its value is `Session.catalog`."""
        return (
            "SELECT schema_name FROM information_schema.schemata"
            f" WHERE catalog_name = {self.placeholder(1)}"
        )

    # Loading

    def schema_statements(self, name: str) -> Sequence[str]:
        """Return the statement that creates a schema if it is missing; nothing without schemas."""
        return (f"CREATE SCHEMA IF NOT EXISTS {self.ident(name)}",)

    def empty_statement(self, table: TableRef) -> str:
        """Return the statement that removes all rows from a table."""
        return f"TRUNCATE TABLE {self.table(table)}"

    def drop_statement(self, table: TableRef) -> str:
        """Return the statement that drops a table if it exists."""
        return f"DROP TABLE IF EXISTS {self.table(table)}"

    def empty_copy(
        self, table: TableRef, like: TableRef, columns: Sequence[str], own_key: str = ""
    ) -> str:
        """Return the statement that creates an empty table with some columns of another.

        They keep their types; keys and checks are left out.

        Args:
            table: the table.
            like: the table to copy columns from.
            columns: the names of the columns.
            own_key: see `TargetTables.own_key`.
        """
        listed = ", ".join(map(self.ident, columns))
        key = f" ({own_key})" if own_key else ""
        empty = self.limited_query(f"SELECT {listed} FROM {self.table(like)}", 0)
        return f"CREATE TABLE {self.table(table)}{key} AS {empty}"

    def rename_statement(self, table: TableRef, name: str) -> str:
        """Return the statement that renames a table within its schema."""
        return f"ALTER TABLE {self.table(table)} RENAME TO {self.ident(name)}"

    def change_column_statement(self, table: TableRef, change: ColumnChange) -> str:
        """Return the statement that changes a column."""
        column = self.ident(change.column)
        if change.kind == ADD:
            action = f"ADD COLUMN {column} {change.text}"
        elif change.kind == RENAME:
            action = f"RENAME COLUMN {self.ident(change.was)} TO {column}"
        else:
            action = self.widen_column_clause(column, change)
        return f"ALTER TABLE {self.table(table)} {action}"

    def widen_column_clause(self, column: str, change: ColumnChange) -> str:
        """Return the part of `ALTER TABLE` that changes a column's type, or lets it be NULL.

        For databases that widen columns.
        """
        raise NotImplementedError

    def exchange_statements(self, table: TableRef, new: TableRef) -> Sequence[str]:
        """Return the statements that replace a table with another."""
        return (f"DROP TABLE {self.table(table)}", self.rename_statement(new, table.name))

    def drop_indexes_statement(self, table: TableRef, names: Sequence[str]) -> str:
        """Return one statement that drops indexes named by `TargetTables.deferrable_indexes`."""
        raise NotImplementedError

    def index_statements(self, table: TableRef, definitions: Sequence[str]) -> str:
        """Return statements that create indexes, as few as possible.

        Args:
            table: the table.
            definitions: in the form of the database's catalog.
        """
        raise NotImplementedError

    def drop_foreign_key_statement(self, table: TableRef, name: str) -> str:
        return f"ALTER TABLE {self.table(table)} DROP CONSTRAINT {self.ident(name)}"

    def differ(self, names: Sequence[str]) -> str:
        """Return whether the rows `t` and `s` differ in one of these columns."""
        columns = map(self.ident, names)
        return " OR ".join(f"t.{name} IS DISTINCT FROM s.{name}" for name in columns) or NEVER

    def respelled_condition(self, key: Sequence[str]) -> str:
        """Return whether the rows `t` and `s` write equal keys differently."""
        return NEVER

    def spellings(self, staged: str, key: Sequence[str]) -> str:
        """Return a query for the spellings of a key that occurs twice; empty if it has only one."""
        return ""

    def merge(
        self, table: str, staged: str, key: Sequence[str], other_columns: Sequence[str]
    ) -> str:
        """Return the statement that merges staged rows.

        It updates the rows of a table that differ from those staged for the same key, and inserts
        the others.

        Args:
            table: the table to merge into, quoted.
            staged: the table with the staged rows, quoted.
            key: the quoted names of the key's columns.
            other_columns: the quoted names of the other columns.
        """
        keys, value_columns = list(map(self.ident, key)), list(map(self.ident, other_columns))
        match = " AND ".join(f"t.{name} = s.{name}" for name in keys)
        update = ""
        respelled = self.respelled_condition(key)
        if respelled != NEVER:
            changes = ", ".join(f"{name} = s.{name}" for name in [*keys, *value_columns])
            update = f" WHEN MATCHED AND ({respelled}) THEN UPDATE SET {changes}"
        if value_columns:
            changes = ", ".join(f"{name} = s.{name}" for name in value_columns)
            update += f" WHEN MATCHED AND ({self.differ(other_columns)}) THEN UPDATE SET {changes}"
        values = ", ".join(f"s.{name}" for name in [*keys, *value_columns])
        return (
            f"MERGE INTO {table} AS t USING {staged} AS s ON {match}{update}"
            f" WHEN NOT MATCHED THEN INSERT ({', '.join([*keys, *value_columns])})"
            f" VALUES ({values})"
        )

    # Rows found by their keys, with NULL equal to NULL: rows `t` of a table with the key of a row
    # `s` of another.

    def _exists_match(self, keys: str, key: Sequence[str]) -> str:
        names = map(self.ident, key)
        match = " AND ".join(f"t.{name} IS NOT DISTINCT FROM s.{name}" for name in names)
        return f"EXISTS (SELECT 1 FROM {keys} AS s WHERE {match})"

    def delete_matching(self, table: str, keys: str, key: Sequence[str]) -> str:
        return f"DELETE FROM {table} AS t WHERE {self._exists_match(keys, key)}"

    def update_matching(
        self, table: str, keys: str, key: Sequence[str], change: str, tested: str
    ) -> str:
        """Return the statement that changes the rows found by some keys.

        Args:
            table: the table, quoted.
            keys: the table with the keys, quoted.
            key: the quoted names of the key's columns.
            change: the text after SET.
            tested: a condition on the row `t`.
        """
        return (
            f"UPDATE {table} AS t SET {change} WHERE {tested} AND {self._exists_match(keys, key)}"
        )

    # Bounds

    @abstractmethod
    def tag_of(self, type_: Type) -> str:
        """Return the tag for bounds of a type."""

    def type_of(self, tag: str) -> str:
        """Return the type of a tag.

        Raises:
            PlanningError: the tag is another system's.
        """
        if tag not in self.types:
            raise PlanningError(f"{self.name} has no type {tag!r}, the type of a bound of the key")
        return self.types[tag]

    def cast_type(self, type_: Type) -> str:
        """Return the type for `cast` that turns values into a column's type."""
        # Without the column's length: a longer text is a different value.
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
        """Return a decimal bound, exactly."""
        return decimal(bound)[0]

    def hash_number(self, value: str) -> str:
        # A database's own hash function may change between versions.
        return self.digest(self.text(value))

    def bound_text(self, tag: str, value: str) -> str:
        """Return a value as the text of a bound, the same in every database."""
        return self.text(value)

    # Masks

    masking: Masking | None = None
    """The functions for masks; None if masks are not supported."""

    def mask_tag(self, type_: Type) -> str:
        """Return the tag of a type, by which masks distinguish types."""
        return self.tag_of(type_)

    # Checksums

    @abstractmethod
    def canonical(self, value: str, type_: Type, kind: str) -> str:
        """Return the canonical text of a value; NULL for NULL.

        Args:
            value: the value, as an expression.
            type_: the type, in the model's terms.
            kind: as in `ColumnPair.canonical`.
        """

    @abstractmethod
    def framed_text(self, text: str) -> str:
        """Return a text preceded by its length in bytes and a colon, or `-` for NULL.

        Its end is then unambiguous, whatever it contains.
        """

    @abstractmethod
    def digest(self, text: str) -> str:
        """Return the first 60 bits of a text's SHA-256, in UTF-8, as a whole number."""

    def total(self, digest: str) -> str:
        """Return the exact sum of many digests as text; `0` for no rows.

        It may exceed 64 bits.
        """
        return self.text(f"coalesce(sum({digest}), 0)")

    # Windows of time, for databases with the strategy `time`.

    def interval(self, text: str) -> str:
        """Return a length of time as the user wrote it.

        Raises:
            PlanningError: tables cannot be partitioned by windows of time.
        """
        raise PlanningError(f"{self.name} cannot partition tables by windows of time")

    def is_positive(self, interval: str) -> str:
        """Whether an interval is longer than zero."""
        raise NotImplementedError

    def is_finite(self, value: str) -> str:
        """Whether a date or timestamp is finite."""
        raise NotImplementedError

    def window_starts(self, width: str, tag: str, first: str, last: str, count: int) -> str:
        """Return a SELECT of one column, ``start``: the starts of windows of one width.

        The first is at the beginning of a year, week, day or hour, the last at or before `last`.

        Args:
            width: the width of a window, as an expression.
            tag: the type of the value, as in `Bound`.
            first: the first value of the key.
            last: the last value of the key.
            count: the maximum number of windows.
        """
        raise NotImplementedError
