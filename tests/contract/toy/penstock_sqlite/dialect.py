"""SQLite's SQL, and the types that this backend supports."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from penstock.backends.sql.catalog.catalog_facts import TableQuery
from penstock.backends.sql.dialect import CatalogDialect, Type
from penstock.model.tables import TableRef

ARROW_TYPES = {
    "INTEGER": pa.int64(),
    "REAL": pa.float64(),
    "TEXT": pa.string(),
    "BLOB": pa.binary(),
    "DATE": pa.date32(),
}
"""The types of columns that can be copied. A date is a text."""
_TAGS = {"INTEGER": "int8", "REAL": "float8", "TEXT": "text", "BLOB": "bytea", "DATE": "date"}

_TYPES = {
    **dict.fromkeys(("int2", "int4", "int8"), "INTEGER"),
    **dict.fromkeys(("text", "varchar", "bpchar", "date"), "TEXT"),
    "float8": "REAL",
}


class SqliteDialect(CatalogDialect):
    name = "SQLite"
    types = _TYPES
    now = "strftime('%Y-%m-%d %H:%M:%f+00:00', 'now')"
    ranged = ("int8", "text", "date")
    relations = (
        "SELECT 'main', name, upper(type) FROM main.sqlite_master WHERE ? = 'main'"
        " AND type IN ('table', 'view') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name"
    )
    column_facts = TableQuery(
        "x.name, CASE x.\"notnull\" WHEN 0 THEN 'YES' END, x.dflt_value, x.hidden > 1",
        "main.sqlite_master AS m JOIN pragma_table_xinfo(m.name, 'main') AS x",
        "'main'",
        "m.name",
    )

    def ident(self, name: str) -> str:
        # In double quotes, a name that no column has would be a text.
        return "`" + name.replace("`", "``") + "`"

    def cast(self, value: str, type_: str) -> str:
        return f"CAST({value} AS {'TEXT' if type_ == 'DATE' else type_})"

    def schema_statements(self, name: str) -> Sequence[str]:
        return ()

    def empty_statement(self, table: TableRef) -> str:
        return f"DELETE FROM {self.table(table)}"

    def tag_of(self, type_: Type) -> str:
        return _TAGS.get(type_, str(type_).lower())

    def bound_text(self, tag: str, value: str) -> str:
        return f"'\\x' || lower(hex({value}))" if tag == "bytea" else self.text(value)

    def beginning(self, text: str, length: int) -> str:
        return f"substr({text}, 1, {length})"

    # Python functions extend what SQL can do: see `FUNCTIONS`.

    def canonical(self, value: str, type_: Type, kind: str) -> str:
        return f"penstock_canonical({value}, {self.literal(kind)})"

    def framed_text(self, text: str) -> str:
        return f"coalesce(length(CAST({text} AS BLOB)) || ':' || {text}, '-')"

    def digest(self, text: str) -> str:
        return f"penstock_digest({text})"

    def total(self, digest: str) -> str:
        return f"coalesce(penstock_total({digest}), '0')"


SQLITE = SqliteDialect()
