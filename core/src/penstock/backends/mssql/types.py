"""The types of columns, in tables as in queries, and what is known about each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date

import pyarrow as pa
import pyarrow.compute as pc

from penstock.backends.shared.values import guards
from penstock.backends.shared.values.created_types import CreatedTypes, with_units
from penstock.backends.shared.values.guards import ValueGuard
from penstock.backends.shared.values.type_table import TypeLine, TypeTable
from penstock.model import table_model as model

MAX = -1
"""The length of values stored outside the row."""
BYTES = ("binary", "varbinary", "image", "timestamp", "rowversion")
FRACTIONS = ("datetime2", "datetimeoffset", "time")
MICROS = 6
"""The fractional digits of a second in a record batch."""
_WIDE = ("nchar", "nvarchar")
"""Types with two bytes per character."""
_WITH_LENGTH = ("char", "varchar", *_WIDE, "binary", "varbinary")


@dataclass(frozen=True, slots=True)
class MsType:
    """A type of SQL Server."""

    name: str
    length: int = 0
    """The length of texts and bytes, including `MAX`; the digits of a decimal; the fractional
    digits of a time.
    """
    scale: int = 0

    @property
    def is_short_text(self) -> bool:
        return self.name in ("char", "varchar", *_WIDE) and self.length != MAX

    def __str__(self) -> str:
        if self.name in ("decimal", "numeric"):
            return f"{self.name}({self.length},{self.scale})"
        if self.name in FRACTIONS:
            return f"{self.name}({self.length})"
        if self.name in _WITH_LENGTH:
            return f"{self.name}({'max' if self.length == MAX else self.length})"
        return self.name


def type_of(name: str, length: int, precision: int, scale: int) -> MsType:
    """Return a type as in the catalog.

    Args:
        name: with or without a suffix in parentheses.
        length: in bytes, or `MAX`.
        precision: the digits of a decimal.
        scale: the digits after the decimal point, or the fractional digits of a second.
    """
    name = name.partition("(")[0].lower()
    if name in ("decimal", "numeric"):
        return MsType(name, precision, scale)
    if name in FRACTIONS:
        return MsType(name, scale)
    if name in _WITH_LENGTH:
        return MsType(name, length // 2 if name in _WIDE and length != MAX else length)
    return MsType(name)


def _decimal(type_: MsType) -> pa.DataType:
    return pa.decimal128(type_.length, type_.scale)


def _finer(value: str, type_: MsType) -> str:
    if type_.name in FRACTIONS and type_.length > MICROS:
        return f"DATEPART(nanosecond, {value}) % 1000 <> 0"
    return ""


# Values that columns would change

_MINUTE = 60_000_000
# A tick is a third of a hundredth of a second, written with three digits.
_TICKS = pa.array([0, 3, 7, -3, -7], pa.int64())


def _texts(type_: MsType) -> Iterator[ValueGuard]:
    if type_.length != MAX:
        yield guards.characters(type_.length, type_)


def _octets(type_: MsType) -> Iterator[ValueGuard]:
    if type_.length != MAX:
        yield guards.octets(type_.length, type_)


def _all_octets(type_: MsType) -> Iterator[ValueGuard]:
    yield guards.all_octets(type_.length, type_)


# A type's first and last day, see
# https://learn.microsoft.com/en-us/sql/t-sql/data-types/date-and-time-types
def _ticks(type_: MsType) -> Iterator[ValueGuard]:
    yield guards.days(date(1753, 1, 1), date(9999, 12, 31), type_)
    yield ValueGuard(
        "a time on one of its ticks (.000, .003, .007 s), or a column of datetime2", _off_tick
    )


def _minutes(type_: MsType) -> Iterator[ValueGuard]:
    yield guards.days(date(1900, 1, 1), date(2079, 6, 6), type_)
    yield guards.steps(_MINUTE, type_)


def _fractions(type_: MsType) -> Iterator[ValueGuard]:
    if type_.length < MICROS:
        yield guards.steps(int(10 ** (MICROS - type_.length)), type_)


def _off_tick(array: pa.Array) -> pa.Array:
    micros = array.cast(pa.int64())
    millis = pc.divide(micros, 1000)
    last = pc.subtract(millis, pc.multiply(pc.divide(millis, 10), 10))
    off_tick = pc.and_(pc.invert(pc.is_in(last, _TICKS)), pc.is_valid(array))
    return pc.or_(guards.remains(micros, 1000), off_tick)


_AS_TEXT = "CAST({} AS nvarchar(max))"
_VERSION = TypeLine[MsType](pa.binary(), "bytea", travels="CAST({} AS binary(8))")
_SHAPE = TypeLine[MsType](pa.binary(), travels="{}.STAsBinary()")
_DIGITS = {"s": "(0)", "ms": "(3)", "us": "(6)", "ns": "(6)"}
TYPES: TypeTable[MsType] = TypeTable(
    {
        "bit": TypeLine(pa.bool_(), "bool", model.BOOLEAN),
        "tinyint": TypeLine(pa.uint8(), "int2", model.INTEGER),
        "smallint": TypeLine(pa.int16(), "int2", model.INTEGER),
        "int": TypeLine(pa.int32(), "int4", model.INTEGER),
        "bigint": TypeLine(pa.int64(), "int8", model.INTEGER),
        "decimal": TypeLine(_decimal, "numeric", model.DECIMAL),
        "numeric": TypeLine(_decimal, "numeric", model.DECIMAL),
        "money": TypeLine(pa.decimal128(19, 4), "numeric", model.DECIMAL),
        "smallmoney": TypeLine(pa.decimal128(10, 4), "numeric", model.DECIMAL),
        "real": TypeLine(pa.float32(), "float4", model.FLOAT),
        "float": TypeLine(pa.float64(), "float8", model.FLOAT),
        "date": TypeLine(pa.date32(), "date", model.DATE),
        "time": TypeLine(pa.time64("us"), "time", model.TIME, guards=_fractions),
        "datetime": TypeLine(pa.timestamp("us"), "timestamp", model.TIMESTAMP, guards=_ticks),
        "datetime2": TypeLine(pa.timestamp("us"), "timestamp", model.TIMESTAMP, guards=_fractions),
        "smalldatetime": TypeLine(
            pa.timestamp("us"), "timestamp", model.TIMESTAMP, guards=_minutes
        ),
        "datetimeoffset": TypeLine(
            pa.timestamp("us", "UTC"), "timestamptz", model.MOMENT, guards=_fractions
        ),
        "char": TypeLine(pa.string(), "varchar", model.TEXT, guards=_texts),
        "varchar": TypeLine(pa.string(), "varchar", model.TEXT, guards=_texts),
        "nchar": TypeLine(pa.string(), "text", model.TEXT, guards=_texts),
        "nvarchar": TypeLine(pa.string(), "text", model.TEXT, guards=_texts),
        "text": TypeLine(pa.string(), kind=model.TEXT, travels=_AS_TEXT),
        "ntext": TypeLine(pa.string(), kind=model.TEXT, travels=_AS_TEXT),
        "xml": TypeLine(pa.string(), travels=_AS_TEXT),
        "json": TypeLine(pa.string(), kind=model.JSON),
        "binary": TypeLine(pa.binary(), "bytea", model.BYTES, guards=_all_octets),
        "varbinary": TypeLine(pa.binary(), "bytea", model.BYTES, guards=_octets),
        "image": TypeLine(pa.binary(), kind=model.BYTES, travels="CAST({} AS varbinary(max))"),
        "timestamp": _VERSION,
        "rowversion": _VERSION,
        "uniqueidentifier": TypeLine(pa.uuid(), kind=model.UUID),
        "geometry": _SHAPE,
        "geography": _SHAPE,
        "hierarchyid": TypeLine(pa.string(), travels="{}.ToString()"),
        "sql_variant": TypeLine(pa.string(), travels="CAST({} AS nvarchar(4000))"),
    },
    default=TypeLine(pa.string()),
    finer=_finer,
    too_fine="a time with 100-nanosecond digits, which record batches would lose; use --query with "
    "CAST(... AS datetime2(6)), datetimeoffset(6) or time(6), which rounds it",
    created=CreatedTypes(
        database="SQL Server",
        boolean="bit",
        signed={8: "smallint", 16: "smallint", 32: "int", 64: "bigint"},
        unsigned={8: "tinyint", 16: "int", 32: "bigint", 64: "decimal(20,0)"},
        floats={32: "real", 64: "float"},
        digits=(38, 38),
        text="nvarchar(max)",
        bytes="varbinary(max)",
        uuid="uniqueidentifier",
        json="nvarchar(max)",
        time=with_units("time", _DIGITS),
        timestamp=with_units("datetime2", _DIGITS),
        zoned=with_units("datetimeoffset", _DIGITS),
    ),
    # It becomes part of our statement: words, and what is in parentheses.
    type_pattern=re.compile(
        r"\s*[A-Za-z]\w*\s*(?:\((?:\d+|max)(?:\s*,\s*\d+)?\))?(?:\s+COLLATE\s+\w+)?\s*", re.I
    ),
)
