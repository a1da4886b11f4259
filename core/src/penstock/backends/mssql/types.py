"""The types of columns, of tables and of queries alike, and in what form their values travel."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

MAX = -1
"""The length of what is stored apart from the row."""
BYTES = ("binary", "varbinary", "image", "timestamp", "rowversion")
FRACTIONS = ("datetime2", "datetimeoffset", "time")
MICROS = 6
"""Digits of a second that a record batch has."""
_WIDE = ("nchar", "nvarchar")
"""Of two bytes for each character."""
_WITH_LENGTH = ("char", "varchar", *_WIDE, "binary", "varbinary")
_ARROW = {
    "bit": pa.bool_(),
    "tinyint": pa.uint8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "real": pa.float32(),
    "float": pa.float64(),
    "money": pa.decimal128(19, 4),
    "smallmoney": pa.decimal128(10, 4),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "datetime": pa.timestamp("us"),
    "datetime2": pa.timestamp("us"),
    "smalldatetime": pa.timestamp("us"),
    "uniqueidentifier": pa.uuid(),
    "geometry": pa.binary(),
    "geography": pa.binary(),
}


@dataclass(frozen=True, slots=True)
class MsType:
    name: str
    length: int = 0
    """Of texts and bytes, `MAX` included; of a decimal its digits, of a time those of a second."""
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
    """As the catalog has it.

    Parameters:
        name: without or with what is in parentheses.
        length: in bytes; `MAX` too.
    """
    name = name.partition("(")[0].lower()
    if name in ("decimal", "numeric"):
        return MsType(name, precision, scale)
    if name in FRACTIONS:
        return MsType(name, scale)
    if name in _WITH_LENGTH:
        return MsType(name, length // 2 if name in _WIDE and length != MAX else length)
    return MsType(name)


def arrow_type(of: MsType) -> pa.DataType:
    """In what type the values of a column travel."""
    if of.name in ("decimal", "numeric"):
        return pa.decimal128(of.length, of.scale)
    if of.name == "datetimeoffset":
        return pa.timestamp("us", "UTC")
    if of.name in BYTES:
        return pa.binary()
    return _ARROW.get(of.name, pa.string())


def travelling(value: str, of: MsType) -> str:
    """What is selected, so that the driver has a value that can be one of a record batch."""
    match of.name:
        case "hierarchyid":
            return f"{value}.ToString()"
        case "geometry" | "geography":
            return f"{value}.STAsBinary()"
        case "sql_variant":
            return f"CAST({value} AS nvarchar(4000))"
        case "xml" | "ntext" | "text":
            return f"CAST({value} AS nvarchar(max))"
        case "image":
            return f"CAST({value} AS varbinary(max))"
        case "timestamp" | "rowversion":
            return f"CAST({value} AS binary(8))"
    return value


def finer(value: str, of: MsType) -> str:
    """A test for what would be cut off without a word: less than a microsecond. Empty where none
    can be."""
    if of.name in FRACTIONS and of.length > MICROS:
        return f"DATEPART(nanosecond, {value}) % 1000 <> 0"
    return ""
