"""The columns that may arrive in lines from the source, which Penstock does not examine.

The server must store their values unchanged, or warn. It does not warn when it rounds times and
numbers, adds a century to years, takes digits for the position of an enum member, pads
BINARY with zeros, or makes up a value for NOT NULL. See `texts`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.types as pt

from penstock.backends.api.facts import Fit
from penstock.backends.api.worker import LINES
from penstock.backends.mysql.catalog.tables import CHARSET
from penstock.backends.mysql.stream.encoding import refusal
from penstock.backends.mysql.stream.texts import CONFUSED
from penstock.backends.mysql.types import TYPES, MyType
from penstock.backends.shared.values.arrow import arrow_type
from penstock.backends.sql.catalog.relations import TYPE
from penstock.model.tables import Column

_MICROSECONDS = 6
_TEXTS = ("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "json")
_BYTES = ("varbinary", "tinyblob", "blob", "mediumblob", "longblob")


def line_fit(fit: Fit, source: Column, target: Column) -> Fit:
    """Return the fit of a column in lines.

    Args:
        fit: the fit in record batches.
        source: the source's column.
        target: the target's column, with its traits.
    """
    if fit.reason or (source.nullable and not target.nullable):
        return fit
    if target.traits.get(CHARSET) in CONFUSED:
        return fit
    is_accepted = _accepts(arrow_type(source), target.traits[TYPE], arrow_type(target))
    return replace(fit, formats=(LINES, *fit.formats)) if is_accepted else fit


def check_line_columns(columns: Sequence[Column], planned: pa.Schema, table: str) -> None:
    """Check that columns still accept lines.

    Args:
        columns: the table's current columns.
        planned: what they accepted when the run was planned.
        table: the table, for error messages.

    Raises:
        PermanentError: the server would change values that it would not have changed then.
    """
    for column, field in zip(columns, planned, strict=True):
        type_: MyType = column.traits[TYPE]
        is_accepted = _accepts(field.type, type_, TYPES.arrow_type(type_))
        if not is_accepted or column.traits[CHARSET] in CONFUSED:
            place = f"column {column.name!r}: "
            raise refusal(table, "a type as when the run was planned", column.type, place)


def _accepts(mine: pa.DataType, type_: MyType, theirs: pa.DataType) -> bool:
    if type_.name in _TEXTS:
        return bool(pt.is_string(mine) or pt.is_dictionary(mine) or mine == pa.uuid())
    if type_.name in _BYTES:
        return bool(pt.is_binary(mine))
    match type_.name:
        case "tinyint" | "smallint" | "mediumint" | "int" | "bigint":
            return bool(pt.is_integer(mine) or pt.is_boolean(mine))
        case "decimal":
            return bool(
                pt.is_integer(mine) or (pt.is_decimal(mine) and 0 <= mine.scale <= theirs.scale)
            )
        case "double":
            return bool(pt.is_float64(mine)) and not type_.rounded
        case "date":
            return bool(pt.is_date32(mine))
        case "datetime" | "timestamp":
            # A moment arrives in UTC, the session's time zone.
            return bool(pt.is_timestamp(mine)) and type_.scale == _MICROSECONDS
        case "uuid":
            return bool(mine == pa.uuid())
    return False
