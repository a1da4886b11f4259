"""Tables that the target makes, and those that take another one's place."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.types as pt

from penstock.backends.mysql.catalog.tables import OF_TABLE, unique_keys
from penstock.backends.shared.arrow import is_bytes, is_text
from penstock.backends.sql.load_plan import TargetTables
from penstock.backends.sql.relations import check_is_table
from penstock.backends.sql.session import Session
from penstock.errors import PlanningError
from penstock.model.tables import Column, TableRef

# https://dev.mysql.com/doc/refman/8.4/en/fixed-point-types.html
MOST_DIGITS, MOST_DECIMALS = 65, 30
_INTEGERS = {8: "tinyint", 16: "smallint", 32: "int", 64: "bigint"}
_FRACTIONS = {"s": "", "ms": "(3)", "us": "(6)", "ns": "(6)"}
# A type that somebody has asked for stands in our statement: words, and what is in parentheses.
_TYPE = re.compile(r"\s*[A-Za-z]\w*(?:\s+\w+)*\s*(?:\((?:[\w\s,]|'(?:[^'\\]|'')*')*\)\s*[\w\s]*)?")


def column_type(kind: pa.DataType, name: str) -> str:
    """The type of a column that is made for values of an Arrow type.

    Raises:
        PlanningError: MySQL has none.
    """
    if isinstance(kind, pa.UuidType):
        return "char(36)"
    if isinstance(kind, pa.JsonType):
        return "json"
    if isinstance(kind, pa.BaseExtensionType):
        return column_type(kind.storage_type, name)
    if pt.is_dictionary(kind) or pt.is_run_end_encoded(kind):
        return column_type(kind.value_type, name)
    if pt.is_boolean(kind):
        return "tinyint(1)"
    if pt.is_integer(kind):
        return _INTEGERS[kind.bit_width] + ("" if pt.is_signed_integer(kind) else " unsigned")
    if pt.is_floating(kind):
        return "double" if kind.bit_width == 64 else "float"
    if pt.is_decimal(kind):
        fits = 0 <= kind.scale <= min(MOST_DECIMALS, kind.precision)
        if fits and kind.precision <= MOST_DIGITS:
            return f"decimal({kind.precision},{kind.scale})"
        return "longtext"
    if is_text(kind) or pt.is_null(kind):
        return "longtext"
    if is_bytes(kind):
        return "longblob"
    if pt.is_date(kind):
        return "date"
    if pt.is_time(kind):
        return f"time{_FRACTIONS[kind.unit]}"
    if pt.is_timestamp(kind):
        return ("datetime" if kind.tz is None else "timestamp") + _FRACTIONS[kind.unit]
    raise PlanningError(
        f"target: column {name}: MySQL has no type for {kind}; leave the column out with "
        "--columns, or have the source write it as text"
    )


def written_type(column: Column, asked: str) -> str:
    """
    Parameters:
        asked: the type that somebody has asked for; empty for none.

    Raises:
        PlanningError: that is none.
    """
    if asked and not _TYPE.fullmatch(asked):
        raise PlanningError(f"--types: column {column.name}: expected a type, found {asked!r}")
    # Some servers make the first one NOT NULL, with a default, where nothing is said.
    null = " NULL" if column.nullable and column.type.startswith("timestamp") else ""
    return (asked or column.type) + null


class MySqlTables(TargetTables):
    unique_keys = staticmethod(unique_keys)  # type: ignore[assignment] # of its own sessions

    def like(self, session: Session, table: TableRef, beside: TableRef) -> tuple[str, list[str]]:
        dialect = session.dialect
        return f"CREATE TABLE {dialect.table(beside)} LIKE {dialect.table(table)}", []

    def check_replaceable(self, session: Session, table: TableRef, needs: str) -> None:
        """
        Raises:
            PlanningError: it is a view, or something would be lost with it.
        """
        check_is_table(session, table, needs)
        others = session.facts(
            "SELECT DISTINCT concat(table_schema, '.', table_name)"
            " FROM information_schema.key_column_usage WHERE constraint_catalog = %s"
            " AND referenced_table_schema = %s AND referenced_table_name = %s ORDER BY 1",
            table,
        )
        if others:
            raise PlanningError(
                f"{needs}: foreign keys of other tables point to {table}: "
                f"{', '.join(name for (name,) in others)}; drop them first, or use --mode replace"
            )
        lost = session.facts(
            "SELECT concat('trigger ', trigger_name) FROM information_schema.triggers"
            " WHERE event_object_catalog = %s AND event_object_schema = %s"
            " AND event_object_table = %s ORDER BY 1",
            table,
        )
        if needs == "--mode swap":
            lost += session.facts(
                "SELECT concat('foreign key ', constraint_name)"
                f" FROM information_schema.table_constraints {_CONSTRAINTS} ORDER BY 1",
                table,
            )
        if lost:
            raise PlanningError(
                f"{needs}: {table} would lose {', '.join(name for (name,) in lost)}; drop what is "
                "not needed, or use --mode truncate or replace, which keep the table"
            )


_CONSTRAINTS = OF_TABLE.replace("table_catalog", "constraint_catalog") + (
    " AND constraint_type = 'FOREIGN KEY'"
)
