"""The types of result sets' columns, from tables, views and queries, in MySQL and MariaDB.

Sessions use utf8mb4, so the lengths of texts are in its bytes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
from pymysql.constants import FIELD_TYPE, FLAG
from pymysql.protocol import FieldDescriptorPacket

from penstock.backends.shared.values.created_types import CreatedTypes, with_units
from penstock.backends.shared.values.type_table import TypeLine, TypeTable
from penstock.model import table_model as model

DECIMAL128 = 38
_BYTES_PER_CHARACTER = 4
_BINARY = 63
"""The character set of values that are not text."""
_NO_SCALE = 31
_VECTOR = 242  # MySQL 9


@dataclass(frozen=True, slots=True)
class MyType:
    """The type of a column in a result set."""

    name: str
    """In MySQL's spelling, without parentheses."""
    unsigned: bool = False
    length: int = 0
    """In characters for texts, bytes for binary values, digits for numbers, bits for `bit`."""
    scale: int = 0
    """The digits after the decimal point, also of a second."""
    binary: bool = False
    """Whether its values are bytes instead of text."""
    rounded: bool = False
    """Whether it is rounded to `scale` digits without being a decimal: `double(9,2)`."""

    def __str__(self) -> str:
        """Return the type as MySQL writes it, without the members of an enum or set."""
        text = self.name
        if self.name == "decimal":
            text += f"({self.length},{self.scale})"
        elif self.name in _WITH_LENGTH or self.is_tinyint1:
            text += f"({self.length})"
        elif self.name in _WITH_FRACTION and self.scale:
            text += f"({self.scale})"
        return f"{text} unsigned" if self.unsigned else text

    @property
    def is_tinyint1(self) -> bool:
        """Whether the type is `tinyint(1)`, of which `boolean` is an alias."""
        return self.name == "tinyint" and self.length == 1 and not self.unsigned


_WITH_LENGTH = ("bit", "char", "varchar", "binary", "varbinary")
_WITH_FRACTION = ("datetime", "timestamp", "time")
_SIGNED = (
    "tinyint", "smallint", "mediumint", "int", "bigint", "float", "double", "decimal",
)  # fmt: skip
_NAMES = {
    FIELD_TYPE.TINY: "tinyint",
    FIELD_TYPE.SHORT: "smallint",
    FIELD_TYPE.INT24: "mediumint",
    FIELD_TYPE.LONG: "int",
    FIELD_TYPE.LONGLONG: "bigint",
    FIELD_TYPE.FLOAT: "float",
    FIELD_TYPE.DOUBLE: "double",
    FIELD_TYPE.NEWDECIMAL: "decimal",
    FIELD_TYPE.BIT: "bit",
    FIELD_TYPE.YEAR: "year",
    FIELD_TYPE.DATE: "date",
    FIELD_TYPE.DATETIME: "datetime",
    FIELD_TYPE.TIMESTAMP: "timestamp",
    FIELD_TYPE.TIME: "time",
    FIELD_TYPE.JSON: "json",
    FIELD_TYPE.GEOMETRY: "geometry",
    _VECTOR: "vector",
}
# MariaDB's fixed-length types, by length: they arrive as texts, and as unsigned.
_FIXED = {36: "uuid", 39: "inet6", 15: "inet4"}
_MOST_LENGTHS = (((1 << 8) - 1, "tiny"), ((1 << 16) - 1, ""), ((1 << 24) - 1, "medium"))


def is_text(type_: MyType) -> bool:
    """Whether a type is compared by a collation."""
    return not type_.binary and (type_.name in ("char", "varchar") or type_.name.endswith("text"))


def type_of(field: FieldDescriptorPacket) -> MyType:
    """Return the type that the server reports for a column of a result set."""
    unsigned = bool(field.flags & FLAG.UNSIGNED)
    name = _NAMES.get(field.type_code)
    if name is None:
        return _text(field, unsigned)
    length = field.length
    if name == "decimal":
        # The sign and the decimal point take a place each.
        length -= (not unsigned) + (field.scale > 0)
    scaled = field.scale < _NO_SCALE
    scale = field.scale if scaled else 0
    binary = name in ("geometry", "vector")
    rounded = scaled and name in ("float", "double")
    return MyType(name, unsigned and name in _SIGNED, length, scale, binary, rounded)


def _text(field: FieldDescriptorPacket, unsigned: bool) -> MyType:
    binary = field.charsetnr == _BINARY and field.type_code != FIELD_TYPE.NULL
    length = field.length if binary else field.length // _BYTES_PER_CHARACTER
    if field.flags & (FLAG.ENUM | FLAG.SET):
        name = "enum" if field.flags & FLAG.ENUM else "set"
    elif FIELD_TYPE.TINY_BLOB <= field.type_code <= FIELD_TYPE.BLOB:
        size = next((size for most, size in _MOST_LENGTHS if length <= most), "long")
        name = size + ("blob" if binary else "text")
    elif field.type_code != FIELD_TYPE.STRING:
        name = "varbinary" if binary else "varchar"
    elif unsigned and not binary:
        name = _FIXED.get(length, "char")
    else:
        name = "binary" if binary else "char"
    return MyType(name, length=length, binary=binary)


def _integer(signed: pa.DataType, tag: str, unsigned: pa.DataType, wider: str) -> TypeLine[MyType]:
    return TypeLine(
        lambda of: unsigned if of.unsigned else signed,
        lambda of: wider if of.unsigned else tag,
        model.INTEGER,
    )


def _bits(type_: MyType) -> pa.DataType:
    kinds = (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())
    return next(kind for kind in kinds if type_.length <= kind.bit_width)


def _bytes_or_text(type_: MyType) -> pa.DataType:
    return pa.binary() if type_.binary else pa.string()


def _decimal(type_: MyType) -> pa.DataType:
    wide = type_.length > DECIMAL128
    return (pa.decimal256 if wide else pa.decimal128)(type_.length, type_.scale)


def _tinyint1(type_: MyType) -> pa.DataType:
    if type_.is_tinyint1:
        return pa.bool_()
    return pa.uint8() if type_.unsigned else pa.int8()


# By default a float has 6 digits, and a number with a scale is rounded to it. An addition would
# lose the sign of minus zero.
_IN_FULL = "{} * 1e0"
_TEXT = TypeLine[MyType](pa.string(), "text", model.TEXT)
_OCTETS = TypeLine[MyType](pa.binary(), "bytea", model.BYTES)
_LINES = {
    "tinyint": _integer(pa.int8(), "int2", pa.uint8(), "int2"),
    "smallint": _integer(pa.int16(), "int2", pa.uint16(), "int4"),
    "mediumint": _integer(pa.int32(), "int4", pa.uint32(), "int4"),
    "int": _integer(pa.int32(), "int4", pa.uint32(), "int8"),
    "bigint": _integer(pa.int64(), "int8", pa.uint64(), "numeric"),
    "bit": TypeLine(_bits, kind=model.INTEGER, travels="{} + 0"),
    "year": TypeLine(pa.int16(), "int2", model.INTEGER),
    "decimal": TypeLine(_decimal, "numeric", model.DECIMAL),
    "float": TypeLine(pa.float32(), "float4", model.FLOAT, travels=_IN_FULL),
    "double": TypeLine(pa.float64(), "float8", model.FLOAT, travels=_IN_FULL),
    "date": TypeLine(pa.date32(), kind=model.DATE),
    "datetime": TypeLine(pa.timestamp("us"), "timestamp", model.TIMESTAMP),
    "timestamp": TypeLine(pa.timestamp("us", "UTC"), "timestamptz", model.MOMENT),
    "time": TypeLine(pa.time64("us"), kind=model.TIME),
    **dict.fromkeys(("char", "varchar", "tinytext", "text", "mediumtext", "longtext"), _TEXT),
    **dict.fromkeys(("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"), _OCTETS),
    "enum": TypeLine(_bytes_or_text, "text", model.ENUM),
    "set": TypeLine(_bytes_or_text, "text", model.SET),
    "json": TypeLine(pa.string(), kind=model.JSON),
    "uuid": TypeLine(pa.uuid(), kind=model.UUID),
}
_FRACTIONS = {"s": "", "ms": "(3)", "us": "(6)", "ns": "(6)"}
_INTEGER_TYPES = {8: "tinyint", 16: "smallint", 32: "int", 64: "bigint"}


def _table(lines: Mapping[str, TypeLine[MyType]]) -> TypeTable[MyType]:
    return TypeTable(
        lines,
        default=TypeLine(_bytes_or_text),
        finer=lambda value, of: "",
        too_fine="",
        created=CreatedTypes(
            database="MySQL",
            boolean="tinyint(1)",
            signed=_INTEGER_TYPES,
            unsigned={bits: f"{name} unsigned" for bits, name in _INTEGER_TYPES.items()},
            floats={32: "float", 64: "double"},
            # https://dev.mysql.com/doc/refman/8.4/en/fixed-point-types.html
            digits=(65, 30),
            text="longtext",
            bytes="longblob",
            uuid="char(36)",
            json="json",
            time=with_units("time", _FRACTIONS),
            timestamp=with_units("datetime", _FRACTIONS),
            zoned=with_units("timestamp", _FRACTIONS),
        ),
        # It becomes part of our statement: words, and what is in parentheses.
        type_pattern=re.compile(
            r"\s*[A-Za-z]\w*(?:\s+\w+)*\s*(?:\((?:[\w\s,]|'(?:[^'\\]|'')*')*\)\s*[\w\s]*)?"
        ),
    )


TYPES = _table(_LINES)
_WITH_BOOLEANS = _table({**_LINES, "tinyint": TypeLine(_tinyint1, "int2", model.INTEGER)})


def types_of(options: Mapping[str, str]) -> TypeTable[MyType]:
    """Return the type table.

    Args:
        options: the options of a URL, which say whether `tinyint(1)` holds truth values.
    """
    return _WITH_BOOLEANS if options.get("tinyint1") == "bool" else TYPES
