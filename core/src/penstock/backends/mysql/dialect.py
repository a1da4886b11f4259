"""The SQL that both MySQL and MariaDB accept."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from penstock.backends.mysql.catalog.canonical import canonical
from penstock.backends.mysql.catalog.masking import MySqlMasking
from penstock.backends.mysql.types import TYPES
from penstock.backends.sql.dialect import (
    BYTES,
    CHARACTERS,
    LOWER,
    NEVER,
    NEW_UUID,
    NOW,
    OCTETS,
    TODAY,
    UPPER,
    UTC_NOW,
    CatalogDialect,
    Type,
)
from penstock.backends.sql.rows.bounds import TEXTS
from penstock.backends.sql.server.intervals import parse_interval
from penstock.errors import PlanningError
from penstock.model.drift import ColumnChange
from penstock.model.extents import Bound, Key
from penstock.model.table_model import Identity
from penstock.model.tables import TableRef

_TYPES = {
    **dict.fromkeys(("bool", "int2", "int4", "int8"), "SIGNED"),
    **dict.fromkeys(("text", "varchar", "bpchar", "uuid"), "CHAR CHARACTER SET utf8mb4"),
    **dict.fromkeys(("float4", "float8"), "DOUBLE"),
    **dict.fromkeys(("timestamp", "timestamptz"), "DATETIME(6)"),
    "date": "DATE",
    "time": "TIME(6)",
    "bytea": "BINARY",
}
_EXACT = ("decimal", "binary")
"""Types whose length CAST accepts."""
_SYSTEM = "'information_schema', 'mysql', 'performance_schema', 'sys'"
_ZONE = re.compile(r"(?:Z|[+-]00(?::?00)?)$")


_CLOCK = re.compile(r"(?:datetime|timestamp)(\(\d\))?", re.IGNORECASE)
_LONG = re.compile(r"(?:tiny|medium|long)?(?:text|blob)|json", re.IGNORECASE)
_VARYING = re.compile(r"(?:var)?(?:char|binary)\((\d+)\)", re.IGNORECASE)
LONGEST_INDEXED = 768
"""The characters of a text that fit into an index: 3,072 bytes."""


def order_name(flavour: str, collation: str) -> str:
    """Return the name of a collation for `Key.collation`.

    Collations of MySQL and MariaDB with the same name may differ.
    """
    return f"{flavour}:{collation}"


def native_name(order: str) -> str:
    """Return the server's name of a collation; see `order_name`."""
    return order.rpartition(":")[2]


def old_table(new: TableRef) -> TableRef:
    """Return the name of a replaced table until it is dropped."""
    return replace(new, name=f"{new.name}-old")


class MySqlDialect(CatalogDialect):
    """The dialect of MySQL and MariaDB.

    Args:
        by_bytes: whether to compare texts by their bytes if a key names no collation.
        index: the index of the target's table by which `merge` finds rows; any if empty.
    """

    name = "MySQL"
    types = _TYPES
    ranged = (
        "int2", "int4", "int8", "numeric", "date", "timestamp", "timestamptz", "text", "bytea",
    )  # fmt: skip
    now = "now(6)"
    ddl_commits = True
    computed = (
        "CASE WHEN instr(extra, 'VIRTUAL GENERATED') + instr(extra, 'STORED GENERATED') > 0"
        " THEN 1 ELSE 0 END"
    )

    longest_name = 64
    checks_with_table = True
    index_kinds: Mapping[str, str] = {"fulltext": "FULLTEXT", "spatial": "SPATIAL"}
    functions: Mapping[str, str] = {
        NOW: "CURRENT_TIMESTAMP",
        UTC_NOW: "(utc_timestamp(6))",
        TODAY: "(curdate())",
        NEW_UUID: "(uuid())",
    }
    calls: Mapping[str, str] = {
        CHARACTERS: "char_length",
        OCTETS: "octet_length",
        LOWER: "lower",
        UPPER: "upper",
    }

    def exactly(self, value: str) -> str:
        return f"CAST({value} AS BINARY)"

    def like_condition(self, value: str, pattern: str) -> str:
        return f"{value} COLLATE utf8mb4_bin LIKE {pattern}"

    def wide(self, value: str) -> str:
        return value  # all values are

    def generated_clause(self, text: str) -> str:
        return f"GENERATED ALWAYS AS ({text}) STORED"

    def numbering_clause(self, first: int, step: int) -> str:
        # The step between numbers is up to the server.
        return "AUTO_INCREMENT" if step == 1 else ""

    def identity_statements(
        self, table: TableRef, column: str, type_: str, identity: Identity
    ) -> str:
        definition = f"{self.ident(column)} {type_} NOT NULL AUTO_INCREMENT"
        return f"ALTER TABLE {self.table(table)} MODIFY {definition}"

    def fitted_default(self, default: str, type_: str) -> str:
        if default == self.functions[NOW]:
            # It has the same number of digits as the column.
            match = _CLOCK.match(type_)
            return f"{default}{match[1] or ''}" if match else "(current_date())"
        return f"({default})" if _LONG.match(type_) and default[0] != "(" else default

    def set_on_update(self, moment: str) -> str:
        return f"ON UPDATE {moment}" if moment[0] != "(" else ""

    def comment_clause(self, text: str) -> str:
        return f"COMMENT {self._on_one_line(text)}"

    def table_comment_option(self, text: str) -> str:
        return f"COMMENT={self._on_one_line(text)}"

    def comment_statement(self, table: TableRef, column: str, text: str) -> str:
        return (
            "" if column else f"ALTER TABLE {self.table(table)} {self.table_comment_option(text)}"
        )

    def _on_one_line(self, text: str) -> str:
        return self.literal(text).replace("\n", "\\n")

    def index_part(self, column: str, type_: str) -> str:
        match = _VARYING.match(type_)
        is_long = int(match[1]) > LONGEST_INDEXED if match else _LONG.match(type_)
        return self.ident(column) + (f"({LONGEST_INDEXED // 4})" if is_long else "")

    def referential(self, event: str, action: str) -> str:
        return "" if action == "SET DEFAULT" else action

    def __init__(self, *, by_bytes: bool = False, index: str = "") -> None:
        self._by_bytes = by_bytes
        self._index = index

    def ident(self, name: str) -> str:
        return "`" + name.replace("`", "``") + "`"

    def literal(self, text: str) -> str:
        return super().literal(text.replace("\\", "\\\\").replace("\0", "\\0"))

    def text(self, value: str) -> str:
        return f"CONVERT({value} USING utf8mb4)"

    def joined(self, texts: Sequence[str]) -> str:
        return f"concat({', '.join(texts)})" if texts else ""

    def placeholder(self, number: int) -> str:
        return "%s"

    @property
    def relations(self) -> str:
        return (
            "SELECT table_schema, table_name, table_type FROM information_schema.tables"
            f" WHERE table_catalog = %s AND table_schema NOT IN ({_SYSTEM})"
            " AND table_type <> 'SEQUENCE'"
            " ORDER BY table_schema, table_name"
        )

    def schema_statements(self, name: str) -> Sequence[str]:
        return (f"CREATE DATABASE IF NOT EXISTS {self.ident(name)}",)

    def empty_copy(
        self, table: TableRef, like: TableRef, columns: Sequence[str], own_key: str = ""
    ) -> str:
        statement = super().empty_copy(table, like, columns, own_key)
        return statement.replace(" AS SELECT", " ENGINE = InnoDB AS SELECT", 1)

    def rename_statement(self, table: TableRef, name: str) -> str:
        return f"RENAME TABLE {self.table(table)} TO {self.table(replace(table, name=name))}"

    def widen_column_clause(self, column: str, change: ColumnChange) -> str:
        # Some servers make a timestamp NOT NULL where nothing is said.
        bare = " NULL" if change.text == change.type else ""
        return f"MODIFY COLUMN {column} {change.text}{bare}"

    def exchange_statements(self, table: TableRef, new: TableRef) -> Sequence[str]:
        # One statement, so that the table is never missing, even after a kill.
        old = self.table(old_table(new))
        return (
            f"DROP TABLE IF EXISTS {old}",
            f"RENAME TABLE {self.table(table)} TO {old}, {self.table(new)} TO {self.table(table)}",
            f"DROP TABLE {old}",
        )

    def drop_indexes_statement(self, table: TableRef, names: Sequence[str]) -> str:
        dropped = ", ".join(f"DROP INDEX {self.ident(name)}" for name in names)
        return f"ALTER TABLE {self.table(table)} {dropped}"

    def index_statements(self, table: TableRef, definitions: Sequence[str]) -> str:
        # All in one pass over the table, except that MySQL creates one FULLTEXT index at a time.
        words = [each for each in definitions if each.startswith("FULLTEXT")]
        together = [each for each in definitions if each not in words[1:]]
        groups = [
            ", ".join(f"ADD {each}" for each in group)
            for group in (together, *([w] for w in words[1:]))
        ]
        return ";\n".join(f"ALTER TABLE {self.table(table)} {group}" for group in groups)

    def drop_foreign_key_statement(self, table: TableRef, name: str) -> str:
        return f"ALTER TABLE {self.table(table)} DROP FOREIGN KEY {self.ident(name)}"

    def differ(self, names: Sequence[str]) -> str:
        # Compared by bytes: a text with different case is a different text, whatever the collation
        # says.
        tests = (f"NOT BINARY t.{n} <=> BINARY s.{n}" for n in map(self.ident, names))
        return " OR ".join(tests) or NEVER

    def respelled_condition(self, key: Sequence[str]) -> str:
        return self.differ(key)

    def merge(
        self, table: str, staged: str, key: Sequence[str], other_columns: Sequence[str]
    ) -> str:
        keys, updated = list(map(self.ident, key)), list(map(self.ident, other_columns))
        matches = " AND ".join(f"t.{name} = s.{name}" for name in keys)
        values = ", ".join(f"s.{name}" for name in [*keys, *updated])
        target = f"{self._indexed(table)} ON {matches}"
        insert = (
            f"INSERT INTO {table} ({', '.join([*keys, *updated])}) SELECT {values}"
            f" FROM {staged} AS s LEFT JOIN {target} WHERE t.{keys[0]} IS NULL"
        )
        # Including the key, so that a row gets the source's spelling.
        changes = ", ".join(f"t.{name} = s.{name}" for name in [*updated, *keys])
        update = f"UPDATE {staged} AS s STRAIGHT_JOIN {target} SET {changes}"
        return f"{update} WHERE {self.differ([*other_columns, *key])};\n{insert}"

    def _indexed(self, table: str) -> str:
        # The server takes a table filled a moment ago to be small, and would read all of it for
        # each staged row.
        index = f" FORCE INDEX ({self.ident(self._index)})" if self._index else ""
        return f"{table} AS t{index}"

    def spellings(self, staged: str, key: Sequence[str]) -> str:
        names = list(map(self.ident, key))
        texts = [f"CONVERT({name} USING utf8mb4) COLLATE utf8mb4_bin" for name in names]
        shown = f"concat('(', concat_ws(', ', {', '.join(texts)}), ')')"
        return (
            f"SELECT group_concat(DISTINCT {shown} SEPARATOR ' and ') FROM {staged}"
            f" GROUP BY {', '.join(names)} HAVING count(*) > 1 LIMIT 1"
        )

    def _joined_keys(self, table: str, keys: str, key: Sequence[str]) -> str:
        matches = " AND ".join(f"t.{name} <=> s.{name}" for name in map(self.ident, key))
        return f"{keys} AS s STRAIGHT_JOIN {self._indexed(table)} ON {matches}"

    def delete_matching(self, table: str, keys: str, key: Sequence[str]) -> str:
        return f"DELETE t FROM {self._joined_keys(table, keys, key)}"

    def update_matching(
        self, table: str, keys: str, key: Sequence[str], change: str, tested: str
    ) -> str:
        return f"UPDATE {self._joined_keys(table, keys, key)} SET {change} WHERE {tested}"

    # Bounds

    masking = MySqlMasking()

    def mask_tag(self, type_: Type) -> str:
        return "int8" if type_.name == "bigint" else self.tag_of(type_)

    def tag_of(self, type_: Type) -> str:
        return TYPES.tag(type_)

    def cast_type(self, type_: Type) -> str:
        # CAST has its own names for types, and supports few column types.
        if type_.name in _EXACT:
            return str(replace(type_, unsigned=False))
        if type_.unsigned or type_.name == "bit":
            return "UNSIGNED"
        return self.types.get(self.tag_of(type_), str(type_))

    def comparable(self, tag: str, value: str) -> str:
        if self._by_bytes and tag in TEXTS:
            return self._bytes(value)
        # Numbers of four bytes are written and read with six digits.
        return f"({value} + 0e0)" if tag in ("float4", "float8") else value

    def compared_key(self, key: Key, tag: str) -> str:
        if tag in TEXTS and key.collation:
            # The other operand names the collation, so that the key's index can be used.
            return self._bytes(self.key(key)) if key.collation == BYTES else self.key(key)
        return self.comparable(tag, self.key(key))

    def collated_value(self, key: Key, tag: str, value: str) -> str:
        if tag in TEXTS and key.collation == BYTES:
            return self._bytes(value)
        if tag in TEXTS and key.collation:
            collation = native_name(key.collation)
            charset = collation.partition("_")[0]
            return f"CONVERT({value} USING {self.ident(charset)}) COLLATE {self.ident(collation)}"
        return self.comparable(tag, value)

    def bound_operand(self, key: Key, bound: Bound) -> str:
        return self.collated_value(key, bound.type, self.bound(bound))

    def _bytes(self, value: str) -> str:
        return f"CAST({self.text(value)} AS BINARY)"

    def bound(self, bound: Bound) -> str:
        if bound.type in (*TEXTS, "uuid"):
            return self.literal(bound.text)
        if bound.type == "timestamptz":
            if not _ZONE.search(bound.text):
                raise PlanningError(f"expected a time in UTC, found {bound.text!r}")
            bound = Bound("timestamp", _ZONE.sub("", bound.text))
        return super().bound(bound)

    def bound_text(self, tag: str, value: str) -> str:
        if tag == "bytea":
            return f"concat('\\\\x', lower(hex({value})))"
        text = self.text(value)
        return f"concat({text}, '+00')" if tag == "timestamptz" else text

    def hash_number(self, value: str) -> str:
        return f"crc32({self.text(value)})"

    # Checksums

    def canonical(self, value: str, type_: Type, kind: str) -> str:
        return canonical(value, type_, kind)

    def framed_text(self, text: str) -> str:
        return f"coalesce(concat(length({text}), ':', {text}), '-')"

    def digest(self, text: str) -> str:
        return f"CAST(conv(left(sha2({text}, 256), 15), 16, 10) AS UNSIGNED)"

    # Windows of time

    def interval(self, text: str) -> str:
        count, unit = parse_interval(text)
        return f"{count} {unit.upper()}"

    def is_positive(self, interval: str) -> str:
        return f"{interval.partition(' ')[0]} > 0"

    def is_finite(self, value: str) -> str:
        return f"{value} IS NOT NULL"

    def window_starts(self, width: str, tag: str, first: str, last: str, count: int) -> str:
        length, unit = width.split()
        start = _beginning(unit, int(length), first)
        digits = " UNION ALL ".join(f"SELECT {digit} AS d" for digit in range(10))
        places = range(len(str(count)))
        number = " + ".join(f"d{place}.d * {10**place}" for place in places)
        tables = " CROSS JOIN ".join(f"({digits}) AS d{place}" for place in places)
        start_at = f"{start} + INTERVAL n.i * {length} {unit}"
        return (
            f"SELECT {self.cast(start_at, self.type_of(tag))} AS start"
            f" FROM (SELECT {number} AS i FROM {tables}) AS n"
            f" WHERE n.i < {count} AND {start_at} <= {last}"
        )


def _beginning(unit: str, length: int, first: str) -> str:
    """Return the year, week, day or hour in which a window begins."""
    if unit in ("MONTH", "QUARTER", "YEAR"):
        return f"CAST(date_format({first}, '%Y-01-01') AS DATETIME(6))"
    if unit == "WEEK" or (unit == "DAY" and length % 7 == 0):
        return f"CAST(date({first}) - INTERVAL weekday({first}) DAY AS DATETIME(6))"
    if unit in ("DAY", "HOUR"):
        return f"CAST(date({first}) AS DATETIME(6))"
    return f"CAST(date_format({first}, '%Y-%m-%d %H:00:00') AS DATETIME(6))"


MYSQL = MySqlDialect()
BY_BYTES = MySqlDialect(by_bytes=True)
