"""Tables that the target makes."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

import pyarrow as pa
import pyarrow.types as pt

from penstock.backends.mssql.catalog import of_table, unique_keys
from penstock.backends.mssql.session import MssqlSession
from penstock.backends.shared.arrow import is_bytes, is_text
from penstock.backends.sql.load_plan import TargetTables
from penstock.backends.sql.relations import check_is_table
from penstock.backends.sql.session import Session
from penstock.errors import PlanningError
from penstock.model.tables import Column, TableDefinition, TableRef

MOST_DIGITS = 38
MOST_KEPT = 400
"""Characters of a text that a key can hold: 900 bytes, less those of other columns."""
_INTEGERS = {8: "smallint", 16: "smallint", 32: "int", 64: "bigint"}
_UNSIGNED = {8: "tinyint", 16: "int", 32: "bigint", 64: "decimal(20,0)"}
_FRACTIONS = {"s": 0, "ms": 3, "us": 6, "ns": 6}
# A type that somebody has asked for stands in our statement: words, and what is in parentheses.
_TYPE = re.compile(
    r"\s*[A-Za-z]\w*\s*(?:\((?:\d+|max)(?:\s*,\s*\d+)?\))?(?:\s+COLLATE\s+\w+)?\s*", re.I
)
BY_BYTES = "Latin1_General_BIN2"
"""The collation that tells all texts apart, but for blanks at their ends."""


def column_type(kind: pa.DataType, name: str) -> str:
    """The type of a column that is made for values of an Arrow type.

    Raises:
        PlanningError: SQL Server has none.
    """
    if isinstance(kind, pa.UuidType):
        return "uniqueidentifier"
    if isinstance(kind, pa.BaseExtensionType):
        return column_type(kind.storage_type, name)
    if pt.is_dictionary(kind) or pt.is_run_end_encoded(kind):
        return column_type(kind.value_type, name)
    if pt.is_boolean(kind):
        return "bit"
    if pt.is_integer(kind):
        return (_INTEGERS if pt.is_signed_integer(kind) else _UNSIGNED)[kind.bit_width]
    if pt.is_floating(kind):
        return "float" if kind.bit_width == 64 else "real"
    if pt.is_decimal(kind):
        if 0 <= kind.scale <= kind.precision <= MOST_DIGITS:
            return f"decimal({kind.precision},{kind.scale})"
        return "nvarchar(max)"
    if is_text(kind) or pt.is_null(kind):
        return "nvarchar(max)"
    if is_bytes(kind):
        return "varbinary(max)"
    if pt.is_date(kind):
        return "date"
    if pt.is_time(kind):
        return f"time({_FRACTIONS[kind.unit]})"
    if pt.is_timestamp(kind):
        name = "datetime2" if kind.tz is None else "datetimeoffset"
        return f"{name}({_FRACTIONS[kind.unit]})"
    raise PlanningError(
        f"target: column {name}: SQL Server has no type for {kind}; leave the column out with "
        "--columns, or have the source write it as text"
    )


def check_type(name: str, asked: str) -> None:
    """
    Raises:
        PlanningError: what somebody has asked for is no type.
    """
    if not _TYPE.fullmatch(asked):
        raise PlanningError(f"--types: column {name}: expected a type, found {asked!r}")


def key_type(column: Column, definition: TableDefinition) -> str:
    """The type of a column of texts that is in a key; empty where it is none, or too long."""
    length = definition.lengths.get(column.name, MOST_KEPT + 1)
    if length > MOST_KEPT or not any(column.name in key.names for key in definition.keys):
        return ""
    return f"nvarchar({length}) COLLATE {BY_BYTES}"


class MssqlTables(TargetTables):
    unique_keys = staticmethod(unique_keys)  # type: ignore[assignment] # of its own sessions

    def refused(
        self, session: Session, columns: Sequence[Column], clauses: Sequence[str], *, alike: bool
    ) -> Mapping[str, str]:
        found = {}
        for clause in clauses:
            for column in columns:
                long = "max)" in column.type or column.type in ("xml", "ntext", "text", "image")
                if long and session.dialect.ident(column.name) in clause:
                    found[clause] = (
                        f"{column.type} can be in no key; --types '{column.name}=nvarchar(100)' can"
                    )
        return found

    def check_replaceable(
        self, session: Session, table: TableRef, needs: str, remade: Collection[TableRef] = ()
    ) -> None:
        """
        Raises:
            PlanningError: it is a view, or something would be lost with it.
        """
        check_is_table(session, table, needs)
        assert isinstance(session, MssqlSession)
        keys = session.facts(
            "SELECT OBJECT_SCHEMA_NAME(f.parent_object_id), OBJECT_NAME(f.parent_object_id) "
            + of_table("JOIN sys.foreign_keys AS f ON f.referenced_object_id = o.object_id"),
            table,
        )
        others = sorted({f"{schema}.{name}" for schema, name in keys} - {str(table)})
        if others:
            raise PlanningError(
                f"{needs}: foreign keys of other tables point to {table}: {', '.join(others)}; "
                "drop them first, or use --mode replace"
            )
        triggers = session.facts(
            f"SELECT g.name {of_table('JOIN sys.triggers AS g ON g.parent_id = o.object_id')}",
            table,
        )
        if triggers:
            lost = ", ".join(f"trigger {name}" for (name,) in triggers)
            raise PlanningError(
                f"{needs}: {table} would lose {lost}; drop what is not needed, or use --mode "
                "truncate or replace, which keep the table"
            )
