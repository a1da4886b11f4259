"""Types as described by the driver, and what is known about each."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from snowflake.connector.constants import FIELD_ID_TO_NAME

from penstock.backends.shared.values.created_types import CreatedTypes, with_units
from penstock.backends.shared.values.type_table import TypeLine, TypeTable

_NAMES = {"FIXED": "number", "REAL": "float", "TEXT": "varchar", "TIMESTAMP": "timestamp_ntz"}
# Whole numbers with at most this many digits: their tags, and the integers they travel as. Numbers
# with 19 digits come from systems with 64-bit numbers; a reader rejects one that does not fit.
_WHOLE = ((4, "int2", pa.int16()), (9, "int4", pa.int32()), (19, "int8", pa.int64()))
_TIMES = ("timestamp_ntz", "timestamp_ltz", "timestamp_tz")
SEMI_STRUCTURED = ("variant", "object", "array")
MOST_TEXT = 16_777_216
MICROS = 6


@dataclass(frozen=True, slots=True)
class SnowType:
    """A type of Snowflake."""

    name: str
    precision: int = 0
    scale: int = 0
    length: int = 0

    def __str__(self) -> str:
        if self.name == "number":
            return f"number({self.precision},{self.scale})"
        if self.name == "varchar" and 0 < self.length < MOST_TEXT:
            return f"varchar({self.length})"
        return f"{self.name}({self.scale})" if self.name in (*_TIMES, "time") else self.name


def type_of(description: Any) -> SnowType:
    """Return a column's type.

    Args:
        description: the driver's description of the column.
    """
    name = FIELD_ID_TO_NAME.get(description.type_code, "unknown")
    return SnowType(
        _NAMES.get(name, name.lower()),
        description.precision or 0,
        description.scale or 0,
        description.internal_size or 0,
    )


def _unit(of: SnowType) -> str:
    return "s" if not of.scale else "ms" if of.scale <= 3 else "us"


def _number(of: SnowType) -> pa.DataType:
    integers = (kind for most, _, kind in _WHOLE if not of.scale and of.precision <= most)
    return next(integers, pa.decimal128(of.precision, of.scale))


def _number_tag(of: SnowType) -> str:
    tags = (tag for most, tag, _ in _WHOLE if not of.scale and of.precision <= most)
    return next(tags, "numeric")


def _time(of: SnowType) -> pa.DataType:
    return pa.time64("us") if _unit(of) == "us" else pa.time32(_unit(of))


def _moment(of: SnowType) -> pa.DataType:
    return pa.timestamp(_unit(of), "UTC")


def _finer(value: str, of: SnowType) -> str:
    if of.name in _TIMES and of.scale > MICROS:
        return f"DATE_TRUNC('MICROSECOND', {value}) <> {value}"
    return ""


_FRACTIONS = {"s": "(0)", "ms": "(3)", "us": "(9)", "ns": "(9)"}
TYPES: TypeTable[SnowType] = TypeTable(
    {
        "number": TypeLine(_number, _number_tag),
        "float": TypeLine(pa.float64(), "float8"),
        "varchar": TypeLine(pa.string(), "text"),
        "boolean": TypeLine(pa.bool_(), "bool"),
        "date": TypeLine(pa.date32()),
        "time": TypeLine(_time),
        "timestamp_ntz": TypeLine(lambda of: pa.timestamp(_unit(of)), "timestamp"),
        "timestamp_ltz": TypeLine(_moment, "timestamptz"),
        "timestamp_tz": TypeLine(_moment, "timestamptz"),
        "binary": TypeLine(pa.binary(), "bytea"),
        **dict.fromkeys(SEMI_STRUCTURED, TypeLine(pa.string(), travels="TO_JSON({})")),
    },
    default=TypeLine(None),
    finer=_finer,
    too_fine="a time with nanoseconds, which record batches would lose; use --query with "
    "CAST(... AS TIMESTAMP_NTZ(6)), TIMESTAMP_LTZ(6) or TIME(6), which cuts them off",
    created=CreatedTypes(
        database="Snowflake",
        boolean="boolean",
        signed={8: "number(3,0)", 16: "number(5,0)", 32: "number(10,0)", 64: "number(19,0)"},
        unsigned={8: "number(3,0)", 16: "number(5,0)", 32: "number(10,0)", 64: "number(20,0)"},
        floats={32: "float", 64: "float"},
        digits=(38, 37),
        text="varchar",
        bytes="binary",
        uuid="varchar(36)",
        json="varchar",
        time=with_units("time", _FRACTIONS),
        timestamp=with_units("timestamp_ntz", _FRACTIONS),
        zoned=with_units("timestamp_tz", _FRACTIONS),
    ),
    # It becomes part of our statement: words, and what is in parentheses.
    type_pattern=re.compile(r"\s*[A-Za-z]\w*\s*(?:\(\d+(?:\s*,\s*\d+)?\))?\s*"),
)
