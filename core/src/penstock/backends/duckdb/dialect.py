"""The SQL of DuckDB. Bounds are written as in every backend."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from penstock.backends.duckdb.catalog.canonical import canonical, framed
from penstock.backends.duckdb.catalog.masking import DuckMasking
from penstock.backends.sql.dialect import (
    CHARACTERS,
    LOWER,
    MOST_IN_CHAIN,
    NEW_UUID,
    NOW,
    OCTETS,
    TODAY,
    UPPER,
    UTC_NOW,
    CatalogDialect,
    Type,
)
from penstock.backends.sql.rows import conditions
from penstock.backends.sql.rows.bounds import TEXTS, TIMES, decimal
from penstock.errors import PlanningError
from penstock.model.drift import WIDEN, ColumnChange
from penstock.model.extents import Bound, Extent
from penstock.model.table_model import Identity
from penstock.model.tables import TableRef

# Rows per row group, which serves as a table's block here.
# https://duckdb.org/docs/stable/internals/storage
GROUP_ROWS = 122_880
MOST_DIGITS = 38
MOST_HUGE = (1 << 127) - 1
# A DuckDB type as a tag: a plain word.
_OWN = re.compile(r"[a-z_][a-z0-9_ ]*")
_TAGS = {
    "boolean": "bool",
    "tinyint": "int2",
    "smallint": "int2",
    "integer": "int4",
    "bigint": "int8",
    "utinyint": "int2",
    "usmallint": "int4",
    "uinteger": "int8",
    "ubigint": "numeric",
    "hugeint": "numeric",
    "uhugeint": "numeric",
    "decimal": "numeric",
    "float": "float4",
    "double": "float8",
    "varchar": "text",
    "enum": "text",
    "timestamp_s": "timestamp",
    "timestamp_ms": "timestamp",
    "timestamp with time zone": "timestamptz",
    "blob": "bytea",
}

_WIDE = ("ubigint", "hugeint", "uhugeint")
"""Whole numbers that exceed eight bytes."""

_TYPES = {
    "bool": "BOOLEAN",
    "int2": "SMALLINT",
    "int4": "INTEGER",
    "int8": "BIGINT",
    "float4": "FLOAT",
    "float8": "DOUBLE",
    "text": "VARCHAR",
    "varchar": "VARCHAR",
    "bpchar": "VARCHAR",
    "date": "DATE",
    "time": "TIME",
    "timestamp": "TIMESTAMP",
    "timestamptz": "TIMESTAMP WITH TIME ZONE",
    "uuid": "UUID",
    "bytea": "BLOB",
}


class DuckDialect(CatalogDialect):
    """The dialect of DuckDB."""

    name = "DuckDB"
    alters = False
    # An index is not ordered.
    descends = False
    checks_with_table = has_sequences = True
    functions: Mapping[str, str] = {
        NOW: "CURRENT_TIMESTAMP",
        UTC_NOW: "(now() AT TIME ZONE 'UTC')",
        TODAY: "current_date",
        NEW_UUID: "uuid()",
    }
    calls: Mapping[str, str] = {
        CHARACTERS: "length",
        OCTETS: "strlen",
        LOWER: "lower",
        UPPER: "upper",
    }
    types = _TYPES
    ranged = (
        "int2", "int4", "int8", "numeric", "float4", "float8", "date", "timestamp", "timestamptz",
        "timestamp_ns", "uuid", "text",
    )  # fmt: skip

    def change_column_statement(self, table: TableRef, change: ColumnChange) -> str:
        changed = []
        if change.kind != WIDEN or change.text:
            changed.append(super().change_column_statement(table, change))
        if change.kind == WIDEN and change.nullable:
            column = f"ALTER COLUMN {self.ident(change.column)}"
            changed.append(f"ALTER TABLE {self.table(table)} {column} DROP NOT NULL")
        return ";\n".join(changed)

    def widen_column_clause(self, column: str, change: ColumnChange) -> str:
        return f"ALTER COLUMN {column} TYPE {change.text}"

    def comment_statement(self, table: TableRef, column: str, text: str) -> str:
        of = self.table(table)
        what = f"COLUMN {of}.{self.ident(column)}" if column else f"TABLE {of}"
        return f"COMMENT ON {what} IS {self.literal(text)}"

    def identity_statements(
        self, table: TableRef, column: str, type_: str, identity: Identity
    ) -> str:
        sequence = replace(table, name=f"{table.name}_{column}_seq")
        return self.sequence_statement(sequence, table, column, identity)

    def sequence_statement(
        self, ref: TableRef, table: TableRef, column: str, identity: Identity
    ) -> str:
        """Return statements that create a sequence and make it number a column.

        Args:
            ref: the sequence.
            table: the table with the column.
            column: the column to number.
            identity: the first number and the step.
        """
        sequence = self.table(ref)
        steps = f"START WITH {identity.first} INCREMENT BY {identity.step}"
        if identity.step < 0:
            # By default the maximum is -1, whatever the start is.
            steps += f" MAXVALUE {max(identity.first, -1)}"
        default = self.default_set(table, column, f"nextval({self.literal(sequence)})")
        return f"CREATE OR REPLACE SEQUENCE {sequence} {steps};\n{default}"

    def key_statement(self, table: TableRef, columns: Sequence[str], *, primary: bool) -> str:
        if primary:
            return super().key_statement(table, columns, primary=True)
        name = self.ident("_".join([table.name, *columns, "key"]))
        listed = ", ".join(map(self.ident, columns))
        return f"CREATE UNIQUE INDEX {name} ON {self.table(table)} ({listed})"

    def respelled_condition(self, key: Sequence[str]) -> str:
        # By bytes: texts would be compared as the column's collation says.
        def value(row: str, name: str) -> str:
            return f"encode(CAST({row}.{self.ident(name)} AS VARCHAR))"

        return " OR ".join(f"{value('t', n)} IS DISTINCT FROM {value('s', n)}" for n in key)

    def placeholder(self, number: int) -> str:
        return f"${number}"

    def type_of(self, tag: str) -> str:
        if tag not in self.types and _OWN.fullmatch(tag):
            return tag.upper()
        return super().type_of(tag)

    masking = DuckMasking()

    def mask_tag(self, type_: Type) -> str:
        return "int8" if type_.id in _WIDE else self.tag_of(type_)

    def tag_of(self, type_: Type) -> str:
        return _TAGS.get(type_.id, str(type_).lower())

    def bound(self, bound: Bound) -> str:
        if bound.type in TIMES and bound.text.endswith(" BC"):
            day, blank, time = bound.text.removesuffix(" BC").partition(" ")
            bound = replace(bound, text=f"{day} (BC){blank}{time}")
        return super().bound(bound)

    def number(self, bound: Bound) -> str:
        if bound.text.strip().lower() in ("nan", "infinity", "-infinity"):
            return self.cast(self.literal(bound.text.strip()), "DOUBLE")
        plain, digits, scale = decimal(bound)
        if not scale:
            # Not a DECIMAL, to which DuckDB would cast whole numbers that have one digit more.
            huge = "HUGEINT" if int(plain) <= MOST_HUGE else "UHUGEINT"
            return self.cast(self.literal(plain), huge)
        if digits > MOST_DIGITS:
            raise PlanningError(
                f"expected a number with at most {MOST_DIGITS} digits, found {bound.text!r}"
            )
        return self.cast(self.literal(plain), f"DECIMAL({digits},{scale})")

    def binary(self, digits: str) -> str:
        return f"unhex('{digits}')"

    def bound_text(self, tag: str, value: str) -> str:
        if tag in ("float4", "float8"):
            return (
                f"CASE WHEN isnan({value}) THEN 'NaN' WHEN isinf({value}) AND {value} > 0 THEN "
                f"'Infinity' WHEN isinf({value}) THEN '-Infinity' ELSE {self.text(value)} END"
            )
        if tag == "bytea":
            return f"'\\x' || lower(hex({value}))"
        if tag in TIMES:
            text = self.text(value)  # DuckDB puts it between the day and the time
            return (
                f"replace({text}, ' (BC)', '') || "
                f"CASE WHEN contains({text}, ' (BC)') THEN ' BC' ELSE '' END"
            )
        return self.text(value)

    def comparable(self, tag: str, value: str) -> str:
        # By their bytes, whatever the column's collation.
        return f"{self.text(value)} COLLATE C" if tag in TEXTS else value

    def blocks(self, lower: int, upper: int | None) -> Sequence[str]:
        parts = [f"rowid >= {lower * GROUP_ROWS}"]
        return parts if upper is None else [*parts, f"rowid < {upper * GROUP_ROWS}"]

    def canonical(self, value: str, type_: Type, kind: str) -> str:
        return canonical(value, type_, kind)

    def framed_text(self, text: str) -> str:
        return framed(text)

    def joined_all(self, texts: Sequence[str]) -> str:
        # Planning a chain of || takes time that grows with the square of its length.
        return f"concat({', '.join(texts)})" if len(texts) > MOST_IN_CHAIN else self.joined(texts)

    def digest(self, text: str) -> str:
        return f"CAST('0x' || left(sha256({text}), 15) AS UBIGINT)"

    def interval(self, text: str) -> str:
        return self.cast(self.literal(text), "INTERVAL")

    def is_positive(self, interval: str) -> str:
        return f"{interval} > INTERVAL 0 DAY"

    def is_finite(self, value: str) -> str:
        return f"isfinite({value})"

    def window_starts(self, width: str, tag: str, first: str, last: str, count: int) -> str:
        # In the session's time zone, which is UTC, as for the texts of bounds.
        return f"""
            WITH asked AS (SELECT {width} AS width),
            edges AS (
                SELECT width, CAST({last} AS TIMESTAMP) AS last, date_trunc(
                    CASE WHEN width >= INTERVAL 1 MONTH THEN 'year'
                        WHEN width >= INTERVAL 7 DAY AND epoch(width) % 604800 = 0 THEN 'week'
                        WHEN width >= INTERVAL 1 HOUR THEN 'day'
                        ELSE 'hour' END,
                    CAST({first} AS TIMESTAMP)) AS first
                FROM asked
            )
            SELECT DISTINCT CAST(first + width * i AS {self.type_of(tag)}) AS start
            FROM edges, range({count}) AS r (i)
            WHERE first + width * i <= last"""


DUCKDB = DuckDialect()
ident, literal = DUCKDB.ident, DUCKDB.literal


def condition(where: str | None, extent: Extent) -> str:
    """Return the condition for the rows that `where` and an extent select."""
    return conditions.condition(DUCKDB, where, extent)
