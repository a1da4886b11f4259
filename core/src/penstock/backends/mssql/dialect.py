"""The SQL of SQL Server: Transact-SQL."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from penstock.backends.mssql.catalog.canonical import TEXT, UTF8, canonical
from penstock.backends.mssql.types import TYPES
from penstock.backends.sql.dialect import (
    BYTES,
    DAY,
    NEW_UUID,
    NOW,
    TODAY,
    UTC_NOW,
    CatalogDialect,
    Type,
)
from penstock.backends.sql.rows.bounds import TEXTS, decimal
from penstock.backends.sql.server.intervals import parse_interval
from penstock.errors import PlanningError
from penstock.model.extents import Bound, Key
from penstock.model.tables import TableRef

_TYPES = {
    "bool": "bit",
    "int2": "smallint",
    "int4": "int",
    "int8": "bigint",
    "float4": "real",
    "float8": "float",
    "date": "date",
    "time": "time(7)",
    "timestamp": "datetime2(7)",
    "timestamptz": "datetimeoffset(7)",
    "text": TEXT,
    "varchar": TEXT,
    "bpchar": TEXT,
    # No other system orders these like this.
    "uniqueidentifier": "uniqueidentifier",
    "uuid": "uniqueidentifier",
}
BLOCKS = 1 << 16
"""Blocks are numbered by the two lowest bytes of page numbers."""
BY_BYTES = "Latin1_General_BIN2"
"""The collation that distinguishes all texts, apart from trailing blanks."""
DESCRIPTION = "MS_Description"
"""The extended property that tools show as a comment."""
_ISO = 121
"""The style for dates and times: yyyy-mm-dd hh:mi:ss.nnnnnnn."""
_ZONE = re.compile(r"(?:Z|[+-]00(?::?00)?)$")
_NAME = re.compile(r"\w*")
_SELECT = re.compile(r"SELECT (?:DISTINCT )?")


class MssqlDialect(CatalogDialect):
    """The dialect of SQL Server.

    Args:
        utf8: whether the server has UTF-8 collations, as from SQL Server 2019 on.
        texts: the names of columns that are compared by their bytes where rows are.
    """

    name = "SQL Server"
    types = _TYPES
    ranged = (
        "int2", "int4", "int8", "numeric", "date", "time", "timestamp", "timestamptz", "text",
        "varchar", "bytea", "uniqueidentifier",
    )  # fmt: skip
    functions: Mapping[str, str] = {
        # In a column without a time zone, it is the server's clock.
        NOW: "SYSDATETIMEOFFSET()",
        UTC_NOW: "SYSUTCDATETIME()",
        TODAY: "CAST(SYSDATETIMEOFFSET() AS date)",
        NEW_UUID: "NEWID()",
    }
    truth = ("0", "1")
    now = "SYSUTCDATETIME()"
    counted = "count_big(*)"

    def __init__(self, *, utf8: bool = True, texts: Collection[str] = ()) -> None:
        self._utf8 = utf8
        self._texts = texts

    def literal(self, text: str) -> str:
        return "N" + super().literal(text)

    def exactly(self, value: str) -> str:
        return f"{value} COLLATE {BY_BYTES}"

    has_partial_indexes = includes = refuses_numbers = True

    def comment_statement(self, table: TableRef, column: str, text: str) -> str:
        if ";\n" in text:
            return ""  # where a script is divided into statements
        return self.property_statement(table, column, DESCRIPTION, self.literal(text))

    def property_statement(self, table: TableRef, column: str, name: str, value: str) -> str:
        """Return the statement that adds an extended property to a column, or to the table if none.

        Args:
            table: the table.
            column: the column; empty for the table itself.
            name: the property's name.
            value: a literal.
        """
        places = [("SCHEMA", table.schema), ("TABLE", table.name)]
        places += [("COLUMN", column)] * bool(column)
        listed = "".join(f", N'{kind}', {self.literal(of)}" for kind, of in places)
        return f"EXEC sys.sp_addextendedproperty {self.literal(name)}, {value}{listed}"

    def default_set(self, table: TableRef, column: str, text: str) -> str:
        return f"ALTER TABLE {self.table(table)} ADD DEFAULT {text} FOR {self.ident(column)}"

    def referential(self, event: str, action: str) -> str:
        # It checks all of them at the end of the statement.
        return "NO ACTION" if action == "RESTRICT" else action

    def numbering_clause(self, first: int, step: int) -> str:
        return f"IDENTITY({first},{step})"

    def text(self, value: str) -> str:
        return f"CAST({value} AS {TEXT})"

    def joined(self, texts: Sequence[str]) -> str:
        return " + ".join(texts)

    def limited_query(self, select: str, count: int) -> str:
        # An inner query could not be ordered.
        return _SELECT.sub(lambda match: f"{match[0]}TOP ({count}) ", select, count=1)

    @property
    def relations(self) -> str:
        # The names of the information schema are in upper case, which matters to some databases.
        return (
            "SELECT s.name, o.name, CASE o.type WHEN 'V' THEN 'VIEW' ELSE 'TABLE' END"
            " FROM sys.objects AS o JOIN sys.schemas AS s ON s.schema_id = o.schema_id"
            " WHERE DB_NAME() = ? AND o.type IN ('U', 'V') AND o.is_ms_shipped = 0"
            " AND s.name NOT IN ('sys', 'INFORMATION_SCHEMA', 'information_schema')"
            " ORDER BY s.name, o.name"
        )

    schemas = "SELECT name FROM sys.schemas WHERE DB_NAME() = ?"

    # Loading

    if_not_exists = ""

    def schema_statements(self, name: str) -> Sequence[str]:
        make = self.literal(f"CREATE SCHEMA {self.ident(name)}")
        return (f"IF SCHEMA_ID({self.literal(name)}) IS NULL EXEC ({make})",)

    def rename_statement(self, table: TableRef, name: str) -> str:
        # Also for a constraint.
        parts = (f"[{part.replace(']', ']]')}]" for part in (table.schema, table.name))
        old = self.literal(".".join(parts))
        return f"EXEC sp_rename {old}, {self.literal(name)}, N'OBJECT'"

    def drop_indexes_statement(self, table: TableRef, names: Sequence[str]) -> str:
        # A disabled index is still defined, whatever happens to the run.
        return self._indexes(table, names, "DISABLE")

    def index_statements(self, table: TableRef, definitions: Sequence[str]) -> str:
        return self._indexes(table, definitions, "REBUILD")

    def _indexes(self, table: TableRef, names: Sequence[str], what: str) -> str:
        return ";\n".join(
            f"ALTER INDEX {self.ident(name)} ON {self.table(table)} {what}" for name in names
        )

    def differ(self, names: Sequence[str]) -> str:
        # IS DISTINCT FROM is not supported before SQL Server 2022.
        def compared(row: str, name: str) -> str:
            value = f"{row}.{self.ident(name)}"
            # A text with different case or trailing blanks is a different text.
            wide = f"CAST(CAST({value} AS nvarchar(max)) AS varbinary(max))"
            return wide if name in self._texts else value

        tests = (
            f"NOT EXISTS (SELECT {compared('t', name)} INTERSECT SELECT {compared('s', name)})"
            for name in names
        )
        return " OR ".join(tests) or "1 = 0"

    def respelled_condition(self, key: Sequence[str]) -> str:
        return self.differ([name for name in key if name in self._texts])

    def merge(
        self, table: str, staged: str, key: Sequence[str], other_columns: Sequence[str]
    ) -> str:
        keys, rest_names = list(map(self.ident, key)), list(map(self.ident, other_columns))
        matches = " AND ".join(f"t.{name} = s.{name}" for name in keys)
        listed = ", ".join([*keys, *rest_names])
        values = ", ".join(f"s.{name}" for name in [*keys, *rest_names])
        insert = (
            f"INSERT INTO {table} ({listed}) SELECT {values} FROM {staged} AS s"
            f" WHERE NOT EXISTS (SELECT 1 FROM {table} AS t WHERE {matches})"
        )
        # Including texts of the key, so that a row gets the source's spelling.
        changed = [*other_columns, *(name for name in key if name in self._texts)]
        if not changed:
            return insert
        changes = ", ".join(f"{name} = s.{name}" for name in map(self.ident, changed))
        update = f"UPDATE t SET {changes} FROM {table} AS t JOIN {staged} AS s ON {matches}"
        return f"{update} WHERE {self.differ(changed)};\n{insert}"

    # Bounds

    def comparable(self, tag: str, value: str) -> str:
        # Under an older collation, such as SQL_Latin1_General_CP1_CI_AS, varchar sorts differently
        # from nvarchar, in which bounds are written: 'a-c' and 'ab' change places, and the rows
        # between them would be in two partitions.
        return f"CAST({value} AS nvarchar(4000))" if tag == "varchar" else value

    def compared_key(self, key: Key, tag: str) -> str:
        if tag in TEXTS and key.collation == BYTES:
            return self._exact(self.key(key))
        # The other operand names the collation, so that the key's index can be used.
        return super().compared_key(key, tag)

    def collated_value(self, key: Key, tag: str, value: str) -> str:
        if tag in TEXTS and key.collation == BYTES:
            return self._exact(value)
        collation = f" COLLATE {key.collation}" if tag in TEXTS and key.collation else ""
        return f"{self.comparable(tag, value)}{collation}"

    def bound_operand(self, key: Key, bound: Bound) -> str:
        value = self.bound(bound)
        return self.collated_value(key, bound.type, value) if key.collation else value

    def check_collation(self, key: Key) -> None:
        if not _NAME.fullmatch(key.collation):
            super().check_collation(key)

    def _exact(self, value: str) -> str:
        """Return an expression that sorts like a text's bytes in UTF-8.

        Comparisons ignore trailing blanks, so each text is terminated by the character that sorts
        before all others.
        """
        if not self._utf8:
            return f"CAST({value} AS nvarchar(4000)) COLLATE {BY_BYTES} + NCHAR(0)"
        return f"{self._bytes(self.text(value))} + CHAR(0)"

    def tag_of(self, type_: Type) -> str:
        return TYPES.tag(type_)

    def bound(self, bound: Bound) -> str:
        if bound.type in ("text", "varchar", "bpchar"):
            return self.literal(bound.text)
        if bound.type == "timestamptz":
            if not _ZONE.search(bound.text):
                raise PlanningError(
                    f"expected a time in UTC, such as 2026-01-31T12:00:00Z, found {bound.text!r}"
                )
            return f"CAST({self.literal(_ZONE.sub('+00:00', bound.text))} AS datetimeoffset(7))"
        return super().bound(bound)

    def number(self, bound: Bound) -> str:
        plain, digits, scale = decimal(bound)
        return f"CAST({self.literal(plain)} AS decimal({min(38, max(1, digits))},{min(38, scale)}))"

    def earlier(self, value: str, tag: str, seconds: int) -> str:
        if tag == "date":
            return f"DATEADD(day, -{-(-seconds // DAY)}, {value})"
        return f"DATEADD(second, -{seconds}, {value})"

    def binary(self, digits: str) -> str:
        return f"0x{digits}"

    def bound_text(self, tag: str, value: str) -> str:
        match tag:
            case "bytea":
                wide = f"CAST({value} AS varbinary(8000))"
                return f"'\\x' + LOWER(CONVERT(varchar(max), {wide}, 2))"
            case "numeric":
                # By default money has two decimals and a float six digits.
                return f"CONVERT(nvarchar(60), {value}, 2)"
            case "float4" | "float8":
                return f"CONVERT(nvarchar(40), {value}, 3)"
            case "date" | "time":
                return f"CONVERT(varchar(40), {value}, {_ISO})"
            case "timestamp":
                return f"CONVERT(varchar(40), CAST({value} AS datetime2(7)), {_ISO})"
            case "timestamptz":
                utc = f"CAST(SWITCHOFFSET({value}, '+00:00') AS datetime2(7))"
                return f"CONVERT(varchar(40), {utc}, {_ISO}) + '+00'"
            case "uniqueidentifier":
                return f"LOWER(CAST({value} AS varchar(36)))"
        return self.text(value)

    def blocks(self, lower: int, upper: int | None) -> Sequence[str]:
        # It begins with the page number, lowest byte first, so each block range has pages from all
        # over a table.
        ends = [f"%%physloc%% >= {_page(lower)}"] if lower else []
        return ends if upper is None else [*ends, f"%%physloc%% < {_page(upper)}"]

    def hash_number(self, value: str) -> str:
        digits = f"SUBSTRING(HASHBYTES('MD5', {self.text(value)}), 1, 4)"
        return f"(CAST({digits} AS int) & 2147483647)"

    # Checksums

    def canonical(self, value: str, type_: Type, kind: str) -> str:
        if kind == "text" and not self._utf8:
            raise PlanningError(
                "checksums of text columns need SQL Server 2019 or later, which has UTF-8 "
                "collations; pass --verify counts, or leave the text columns out with --columns"
            )
        return canonical(value, type_, kind)

    def framed_text(self, text: str) -> str:
        length = f"CAST(DATALENGTH({self._bytes(text)}) AS varchar(20))"
        return f"COALESCE({length} + ':' + {self.text(text)}, '-')"

    def digest(self, text: str) -> str:
        digits = f"HASHBYTES('SHA2_256', {self._bytes(text)})"
        high = f"CAST(SUBSTRING({digits}, 1, 7) AS bigint)"
        return f"({high} * 16 + CAST(SUBSTRING({digits}, 8, 1) AS int) / 16)"

    def total(self, digest: str) -> str:
        return f"CAST(COALESCE(SUM(CAST({digest} AS decimal(38,0))), 0) AS varchar(40))"

    def _bytes(self, text: str) -> str:
        """Return the bytes that a text has in other systems."""
        collated = f" COLLATE {UTF8}" if self._utf8 else ""
        return f"CAST({text}{collated} AS varchar(max))"

    # Windows of time

    def interval(self, text: str) -> str:
        count, unit = parse_interval(text)
        return f"'{count} {unit}'"

    def is_positive(self, interval: str) -> str:
        length, _, _ = interval.strip("'").partition(" ")
        return f"CASE WHEN {length} > 0 THEN 1 ELSE 0 END"

    def is_finite(self, value: str) -> str:
        return f"{value} IS NOT NULL"

    def window_starts(self, width: str, tag: str, first: str, last: str, count: int) -> str:
        digits, unit = width.strip("'").split()
        length = int(digits)
        if unit == "week":
            # Weeks between two dates are counted by their Sundays.
            unit, length = "day", 7 * length
        start = _beginning(unit, length, first)
        listed = " UNION ALL ".join(f"SELECT {digit} AS d" for digit in range(10))
        places = range(len(str(count)))
        number = " + ".join(f"d{place}.d * {10**place}" for place in places)
        tables = " CROSS JOIN ".join(f"({listed}) AS d{place}" for place in places)
        # After the last window a date may exceed its type, and the order of conditions is
        # undefined.
        windows = f"DATEDIFF({unit}, {start}, {last}) / {length} + 1"
        offset = f"CASE WHEN n.i < {windows} THEN n.i * {length} END"
        start_at = f"DATEADD({unit}, {offset}, {start})"
        return (
            f"SELECT CAST({start_at} AS {self.type_of(tag)}) AS start"
            f" FROM (SELECT {number} AS i FROM {tables}) AS n"
            f" WHERE n.i < {count} AND {start_at} <= {last}"
        )


def _page(block: int) -> str:
    return f"0x{block:04X}{'00' * 6}"


def _beginning(unit: str, length: int, first: str) -> str:
    """Return the year, week, day or hour in which a window begins."""
    time = f"CAST({first} AS datetime2(6))"
    day = f"CAST(CAST({time} AS date) AS datetime2(6))"
    if unit in ("month", "quarter", "year"):
        return f"CAST(DATEFROMPARTS(YEAR({time}), 1, 1) AS datetime2(6))"
    if unit == "day" and length % 7 == 0:
        # The first day of 1900 was a Monday.
        return f"DATEADD(day, -(DATEDIFF(day, '1900-01-01', {time}) % 7), {day})"
    if unit in ("day", "hour"):
        return day
    return f"DATEADD(hour, DATEPART(hour, {time}), {day})"


MSSQL = MssqlDialect()
OLDER = MssqlDialect(utf8=False)
