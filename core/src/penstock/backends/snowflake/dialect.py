"""The SQL of Snowflake."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from penstock.backends.snowflake.catalog.canonical import canonical
from penstock.backends.snowflake.catalog.masking import SnowflakeMasking
from penstock.backends.snowflake.catalog.names import shown, swapped
from penstock.backends.snowflake.types import TYPES
from penstock.backends.sql.catalog.catalog_facts import TableQuery
from penstock.backends.sql.dialect import DAY, NEW_UUID, NOW, UTC_NOW, CatalogDialect, Type
from penstock.backends.sql.rows.bounds import TEXTS
from penstock.errors import PlanningError
from penstock.model.extents import Bound
from penstock.model.table_model import Identity
from penstock.model.tables import TableRef

_TYPES = {
    "bool": "BOOLEAN",
    **dict.fromkeys(("int2", "int4", "int8"), "NUMBER(38,0)"),
    **dict.fromkeys(("float4", "float8"), "FLOAT"),
    **dict.fromkeys((*TEXTS, "uuid"), "VARCHAR"),
    "date": "DATE",
    "time": "TIME",
    "timestamp": "TIMESTAMP_NTZ",
    "timestamptz": "TIMESTAMP_LTZ",
    "bytea": "BINARY",
}
_ZONE = re.compile(r"(?:Z|[+-]00(?::?00)?)$")


class SnowflakeDialect(CatalogDialect):
    """The dialect of Snowflake."""

    name = "Snowflake"
    types = _TYPES
    ranged = (
        "int2", "int4", "int8", "numeric", "date", "timestamp", "timestamptz", "text", "bytea",
    )  # fmt: skip
    functions: Mapping[str, str] = {
        NOW: "CURRENT_TIMESTAMP()",
        UTC_NOW: "SYSDATE()",
        NEW_UUID: "UUID_STRING()",
    }
    has_indexes = has_checks = False
    now = "CAST(SYSDATE() AS VARCHAR)"
    computed = "0"

    def identity_statements(
        self, table: TableRef, column: str, type_: str, identity: Identity
    ) -> str:
        # The start is set when the table is created, before the source's final number is known; and
        # no key rejects a number that a row already has.
        numbers = f"AUTOINCREMENT START {identity.first} INCREMENT {identity.step}"
        return f"-- in CREATE TABLE {self.table(table)}: {self.ident(column)} {type_} {numbers}"

    def fitted_default(self, default: str, type_: str) -> str:
        # A default has the column's own type.
        is_function = default in self.functions.values()
        return f"CAST({default} AS {type_})" if is_function and type_ else default

    def default_set(self, table: TableRef, column: str, text: str) -> str:
        return ""

    def comment_clause(self, text: str) -> str:
        return f"COMMENT {self._on_one_line(text)}"

    def table_comment_option(self, text: str) -> str:
        return f"COMMENT = {self._on_one_line(text)}"

    def _on_one_line(self, text: str) -> str:
        return self.literal(text).replace("\n", "\\n")

    def ident(self, name: str) -> str:
        return super().ident(swapped(name))

    def literal(self, text: str) -> str:
        return super().literal(text.replace("\\", "\\\\"))

    @property
    def relations(self) -> str:
        schema, name = shown("table_schema"), shown("table_name")
        return (
            f"SELECT {schema}, {name}, table_type FROM information_schema.tables"
            " WHERE table_catalog = ? AND table_schema <> 'INFORMATION_SCHEMA' ORDER BY 1, 2"
        )

    @property
    def column_facts(self) -> TableQuery:
        query = super().column_facts
        return replace(query, columns=query.columns.replace("column_name", shown("column_name"), 1))

    def rename_statement(self, table: TableRef, name: str) -> str:
        new = self.table(replace(table, name=name))
        return f"ALTER TABLE {self.table(table)} RENAME TO {new}"

    def exchange_statements(self, table: TableRef, new: TableRef) -> Sequence[str]:
        return (
            f"ALTER TABLE {self.table(table)} SWAP WITH {self.table(new)}",
            f"DROP TABLE {self.table(new)}",
        )

    # Bounds

    masking = SnowflakeMasking()

    def tag_of(self, type_: Type) -> str:
        return TYPES.tag(type_)

    def bound(self, bound: Bound) -> str:
        if bound.type in ("timestamp", "timestamptz"):
            if bound.type == "timestamptz" and not _ZONE.search(bound.text):
                raise PlanningError(
                    f"expected a time in UTC, such as 2026-01-31T12:00:00Z, found {bound.text!r}"
                )
            # The session's time zone is UTC.
            bound = replace(bound, text=_ZONE.sub("", bound.text))
        return super().bound(bound)

    def earlier(self, value: str, tag: str, seconds: int) -> str:
        if tag == "date":
            return f"DATEADD(day, -{-(-seconds // DAY)}, {value})"
        return f"DATEADD(second, -{seconds}, {value})"

    def binary(self, digits: str) -> str:
        return f"TO_BINARY('{digits}', 'HEX')"

    def bound_text(self, tag: str, value: str) -> str:
        if tag == "bytea":
            return f"'\\\\x' || LOWER(HEX_ENCODE({value}))"
        if tag == "timestamptz":
            stamp = f"CAST(CAST({value} AS TIMESTAMP_LTZ) AS TIMESTAMP_NTZ)"
            return f"{self.text(stamp)} || '+00'"
        return self.text(value)

    # Checksums

    def canonical(self, value: str, type_: Type, kind: str) -> str:
        return canonical(value, type_, kind)

    def framed_text(self, text: str) -> str:
        size = self.text(f"LENGTH(TO_BINARY({text}, 'UTF-8'))")
        return f"COALESCE({size} || ':' || {text}, '-')"

    def digest(self, text: str) -> str:
        return f"TO_NUMBER(LEFT(SHA2({text}, 256), 15), '{'X' * 15}')"

    def total(self, digest: str) -> str:
        return f"COALESCE({self.text(f'SUM({digest})')}, '0')"


SNOWFLAKE = SnowflakeDialect()
