"""Types as the driver describes columns, and those in which their values travel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from snowflake.connector.constants import FIELD_ID_TO_NAME

_NAMES = {"FIXED": "number", "REAL": "float", "TEXT": "varchar", "TIMESTAMP": "timestamp_ntz"}
# Whole numbers of so many digits are in integers of so many bits. Of 19 digits are those that come
# from elsewhere, where they had 64 bits; a reader refuses one that is beyond.
_INTEGERS = ((4, pa.int16()), (9, pa.int32()), (19, pa.int64()))
TIMES = ("timestamp_ntz", "timestamp_ltz", "timestamp_tz")
SEMI_STRUCTURED = ("variant", "object", "array")
MOST_TEXT = 16_777_216
MICROS = 6


@dataclass(frozen=True, slots=True)
class SnowType:
    name: str
    precision: int = 0
    scale: int = 0
    length: int = 0

    @property
    def is_short_text(self) -> bool:
        return self.name == "varchar" and 0 < self.length < MOST_TEXT

    def __str__(self) -> str:
        if self.name == "number":
            return f"number({self.precision},{self.scale})"
        if self.is_short_text:
            return f"varchar({self.length})"
        return f"{self.name}({self.scale})" if self.name in (*TIMES, "time") else self.name


def type_of(described: Any) -> SnowType:
    """
    Parameters:
        described: a column, as the driver has it.
    """
    name = FIELD_ID_TO_NAME.get(described.type_code, "unknown")
    return SnowType(
        _NAMES.get(name, name.lower()),
        described.precision or 0,
        described.scale or 0,
        described.internal_size or 0,
    )


def _unit(scale: int) -> str:
    return "s" if not scale else "ms" if scale <= 3 else "us"


def arrow_type(of: SnowType) -> pa.DataType | None:
    """In what type the values of a column travel; None where there is none."""
    unit = _unit(of.scale)
    match of.name:
        case "number" if of.scale:
            return pa.decimal128(of.precision, of.scale)
        case "number":
            fitting = (kind for most, kind in _INTEGERS if of.precision <= most)
            return next(fitting, pa.decimal128(of.precision, 0))
        case "float":
            return pa.float64()
        case "boolean":
            return pa.bool_()
        case "date":
            return pa.date32()
        case "time":
            return pa.time64(unit) if unit == "us" else pa.time32(unit)
        case "timestamp_ntz":
            return pa.timestamp(unit)
        case "timestamp_ltz" | "timestamp_tz":
            return pa.timestamp(unit, "UTC")
        case "binary":
            return pa.binary()
        case "varchar" | "variant" | "object" | "array":
            return pa.string()
    return None


def travelling(value: str, of: SnowType) -> str:
    """What is selected, so that the driver has a value that can be one of a record batch."""
    return f"TO_JSON({value})" if of.name in SEMI_STRUCTURED else value


def finer(value: str, of: SnowType) -> str:
    """A test for what would be cut off without a word: less than a microsecond. Empty where none
    can be."""
    if of.name in TIMES and of.scale > MICROS:
        return f"DATE_TRUNC('MICROSECOND', {value}) <> {value}"
    return ""
