"""The SQL of ClickHouse. Names and texts may contain backslash escapes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from penstock.backends.clickhouse.catalog.canonical import canonical, framed
from penstock.backends.clickhouse.catalog.masking import ClickHouseMasking
from penstock.backends.clickhouse.types import TYPES, UTC
from penstock.backends.sql.catalog.catalog_facts import TableQuery
from penstock.backends.sql.dialect import DAY, NEW_UUID, NOW, UTC_NOW, CatalogDialect, Type
from penstock.backends.sql.rows.bounds import decimal
from penstock.backends.sql.server.intervals import parse_interval
from penstock.errors import PlanningError
from penstock.model.extents import Bound
from penstock.model.tables import TableRef

MOST_DIGITS = 76
OWN = "penstock_"
"""The prefix of Penstock's own tables in the control database."""
_TYPES = {
    "bool": "Bool",
    "int2": "Int16",
    "int4": "Int32",
    "int8": "Int64",
    "float4": "Float32",
    "float8": "Float64",
    **dict.fromkeys(("text", "varchar", "bpchar", "enum"), "String"),
    "date": "Date32",
    "timestamp": f"DateTime64(6, '{UTC}')",
    "timestamptz": f"DateTime64(6, '{UTC}')",
    "uuid": "UUID",
}
_SECONDS = re.compile(r"((?:19[789]\d|20\d\d|210[0-5])-\d\d-\d\d \d\d:\d\d:\d\d)(?:\.0*)?")
_ZONES = ("+00:00", "+00", "Z")

_WHOLE = re.compile(r"U?Int\d+")


class ClickHouseDialect(CatalogDialect):
    """The dialect of ClickHouse."""

    name = "ClickHouse"
    types = _TYPES
    functions: Mapping[str, str] = {
        NOW: "now64(6)", UTC_NOW: "now64(6)", NEW_UUID: "generateUUIDv4()",
    }  # fmt: skip
    truth = ("false", "true")
    has_indexes = has_foreign_keys = False
    checks_with_table = True
    # Floats include NaN, which no comparison finds; UUIDs sort in ClickHouse's own order.
    ranged = ("int2", "int4", "int8", "numeric", "date", "timestamptz", "text", "bytea")
    # Nullable, because `lag` otherwise returns 0 before the first row.
    counted = "toNullable(toInt64(count()))"
    relations = (
        "SELECT database, name, if(endsWith(engine, 'View'), 'VIEW', 'TABLE') FROM system.tables"
        " WHERE NOT is_temporary AND database NOT IN ('system', 'information_schema',"
        f" 'INFORMATION_SCHEMA') AND NOT startsWith(name, '{OWN}') ORDER BY database, name"
    )
    schemas = "SELECT name FROM system.databases"
    column_facts = TableQuery(
        "name, if(position(type, 'Nullable(') IN (1, 16), 'YES', 'NO'),"
        " nullIf(default_expression, ''), toInt32(default_kind IN ('MATERIALIZED', 'ALIAS'))",
        "system.columns",
        "database",
        "table",
    )

    def comment_clause(self, text: str) -> str:
        return f"COMMENT {self.literal(text)}"

    def table_comment_option(self, text: str) -> str:
        return f"COMMENT {self.literal(text)}"

    def greatest(self, value: str) -> str:
        # By default it returns 0 for no rows.
        return f"maxOrNull({value})"

    def earlier(self, value: str, tag: str, seconds: int) -> str:
        if tag == "date":
            return f"{value} - toIntervalDay({-(-seconds // DAY)})"
        return f"{value} - toIntervalSecond({seconds})"

    def key_statement(self, table: TableRef, columns: Sequence[str], *, primary: bool) -> str:
        return ""  # none identifies rows

    def default_set(self, table: TableRef, column: str, text: str) -> str:
        return f"ALTER TABLE {self.table(table)} MODIFY COLUMN {self.ident(column)} DEFAULT {text}"

    def test(self, text: str) -> str:
        return f"ifNull({text}, true)"

    def ident(self, name: str) -> str:
        return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"

    def literal(self, text: str) -> str:
        return super().literal(text.replace("\\", "\\\\"))

    def placeholder(self, number: int) -> str:
        return f"{{p{number}:String}}"

    def cast(self, value: str, type_: str) -> str:
        return f"accurateCast({value}, {self.literal(type_)})"

    def cast_type(self, type_: Type) -> str:
        return "Nullable(String)" if self.tag_of(type_) == "text" else f"Nullable({_bare(type_)})"

    def text(self, value: str) -> str:
        return f"toString({value})"

    def joined(self, texts: Sequence[str]) -> str:
        return texts[0] if len(texts) == 1 else f"concat({', '.join(texts)})" if texts else ""

    def beginning(self, text: str, length: int) -> str:
        return f"substringUTF8({text}, 1, {length})"

    def schema_statements(self, name: str) -> Sequence[str]:
        return (f"CREATE DATABASE IF NOT EXISTS {self.ident(name)}",)

    # Bounds

    masking = ClickHouseMasking()

    def mask_tag(self, type_: Type) -> str:
        return "int8" if _WHOLE.fullmatch(type_.name) else self.tag_of(type_)

    def tag_of(self, type_: Type) -> str:
        return TYPES.tag(type_)

    def bound(self, bound: Bound) -> str:
        if bound.type in ("timestamp", "timestamptz"):
            text = bound.text
            for zone in _ZONES:
                text = text.removesuffix(zone)
            text = text.replace("T", " ")
            if seconds := _SECONDS.fullmatch(text):
                # IN does not match a DateTime64 with a DateTime, which holds only these values.
                return self.cast(self.literal(seconds[1]), f"DateTime('{UTC}')")
            return self.cast(self.literal(text), self.types[bound.type])
        return super().bound(bound)

    def number(self, bound: Bound) -> str:
        plain, digits, scale = decimal(bound)
        if digits > MOST_DIGITS:
            raise PlanningError(
                f"expected a number with at most {MOST_DIGITS} digits, found {bound.text!r}"
            )
        of = f"Decimal({digits}, {scale})" if scale else "Int256"
        return self.cast(self.literal(plain), of)

    def binary(self, digits: str) -> str:
        return f"unhex('{digits}')"

    def comparable(self, tag: str, value: str) -> str:
        # An enum is compared by its numbers.
        return f"toString({value})" if tag == "enum" else value

    def bound_text(self, tag: str, value: str) -> str:
        if tag == "bytea":
            return f"concat('\\\\x', lower(hex({value})))"
        if tag == "timestamptz":
            return f"concat(toString(toDateTime64({value}, 6, '{UTC}')), '+00')"
        return self.text(value)

    def hash_number(self, value: str) -> str:
        return f"if(isNull({value}), NULL, sipHash64(toString({value})))"

    # Checksums

    def canonical(self, value: str, type_: Type, kind: str) -> str:
        return canonical(value, type_, kind)

    def framed_text(self, text: str) -> str:
        return framed(text)

    def digest(self, text: str) -> str:
        high = f"reinterpretAsUInt64(reverse(substring(SHA256({text}), 1, 8)))"
        return f"bitShiftRight({high}, 4)"

    def total(self, digest: str) -> str:
        return f"toString(sum(toUInt128({digest})))"

    # Windows of time

    def interval(self, text: str) -> str:
        count, unit = parse_interval(text)
        return f"INTERVAL {count} {unit.upper()}"

    def is_positive(self, interval: str) -> str:
        return f"{interval.split()[1]} > 0"

    def is_finite(self, value: str) -> str:
        return f"{value} IS NOT NULL"

    def window_starts(self, width: str, tag: str, first: str, last: str, count: int) -> str:
        _, digits, unit = width.split()
        moment = self.types["timestamptz"]
        begins = {"WEEK": "toMonday", "DAY": "toStartOfDay", "HOUR": "toStartOfDay"}
        begin = begins.get(unit, "toStartOfHour")
        if unit in ("MONTH", "QUARTER", "YEAR"):
            begin = "toStartOfYear"
        if unit == "DAY" and int(digits) % 7 == 0:
            begin = "toMonday"
        base = f"toDateTime64({begin}(toDateTime64({first}, 6, '{UTC}')), 6, '{UTC}')"
        start = f"{base} + toInterval{unit.capitalize()}(number * {digits})"
        cast = f"toDate32({start})" if tag == "date" else f"CAST({start}, {self.literal(moment)})"
        return (
            f"SELECT DISTINCT {cast} AS start FROM numbers({count})"
            f" WHERE start <= toDateTime64({last}, 6, '{UTC}')"
        )


def _bare(type_: Type) -> str:
    """Return a type without its wrappers, for a cast that allows NULL."""
    arguments = f"({', '.join(type_.arguments)})" if type_.arguments else ""
    return f"{type_.name}{arguments}"


CLICKHOUSE = ClickHouseDialect()
