"""The types of result sets' columns: of tables, views and queries alike, in MySQL and in MariaDB.

Sessions speak utf8mb4: the lengths of texts come in bytes of that.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from pymysql.constants import FIELD_TYPE, FLAG
from pymysql.protocol import FieldDescriptorPacket

DECIMAL128 = 38
_BYTES_PER_CHARACTER = 4
_BINARY = 63
"""The character set of what is no text."""
_NO_SCALE = 31
_VECTOR = 242  # MySQL 9


@dataclass(frozen=True, slots=True)
class MyType:
    name: str
    """As MySQL writes it, without what is in parentheses."""
    unsigned: bool = False
    length: int = 0
    """Of texts in characters, of bytes in bytes, of numbers in digits, of `bit` in bits."""
    scale: int = 0
    """Digits after the point, of a second too."""
    binary: bool = False
    """Its values are bytes, not text."""
    rounded: bool = False
    """To `scale` digits, though it is no decimal: `double(9,2)`."""

    def __str__(self) -> str:
        """As MySQL writes it; of an enum or a set without its members."""
        found = self.name
        if self.name == "decimal":
            found += f"({self.length},{self.scale})"
        elif self.name in _WITH_LENGTH or self.is_tinyint1:
            found += f"({self.length})"
        elif self.name in _WITH_FRACTION and self.scale:
            found += f"({self.scale})"
        return f"{found} unsigned" if self.unsigned else found

    @property
    def is_tinyint1(self) -> bool:
        """`tinyint(1)`, which `boolean` is, too."""
        return self.name == "tinyint" and self.length == 1 and not self.unsigned


_WITH_LENGTH = ("bit", "char", "varchar", "binary", "varbinary")
_WITH_FRACTION = ("datetime", "timestamp", "time")
_INTEGERS = {
    "tinyint": (pa.int8(), pa.uint8()),
    "smallint": (pa.int16(), pa.uint16()),
    "mediumint": (pa.int32(), pa.uint32()),
    "int": (pa.int32(), pa.uint32()),
    "bigint": (pa.int64(), pa.uint64()),
}
_SIGNED = (*_INTEGERS, "float", "double", "decimal")
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
# MariaDB's types of fixed length, by that: they come as texts, and as unsigned ones.
_FIXED = {36: "uuid", 39: "inet6", 15: "inet4"}
_MOST_LENGTHS = (((1 << 8) - 1, "tiny"), ((1 << 16) - 1, ""), ((1 << 24) - 1, "medium"))


def is_text(type_: MyType) -> bool:
    """Compared by a collation."""
    return not type_.binary and (type_.name in ("char", "varchar") or type_.name.endswith("text"))


def type_of(field: FieldDescriptorPacket) -> MyType:
    unsigned = bool(field.flags & FLAG.UNSIGNED)
    name = _NAMES.get(field.type_code)
    if name is None:
        return _text(field, unsigned)
    length = field.length
    if name == "decimal":
        # The sign and the point have a place, too.
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


_BITS = (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())
_ARROW = {
    "float": pa.float32(),
    "double": pa.float64(),
    "year": pa.int16(),
    "date": pa.date32(),
    "datetime": pa.timestamp("us"),
    "timestamp": pa.timestamp("us", "UTC"),
    "time": pa.time64("us"),
    "uuid": pa.uuid(),
}


def arrow_type(of: MyType, tinyint1_bool: bool = False) -> pa.DataType:
    """In what type the values of a column travel.

    Parameters:
        tinyint1_bool: whether `tinyint(1)` holds truth values.
    """
    if of.is_tinyint1 and tinyint1_bool:
        return pa.bool_()
    if of.name in _INTEGERS:
        return _INTEGERS[of.name][of.unsigned]
    if of.name == "bit":
        return next(kind for kind in _BITS if of.length <= kind.bit_width)
    if of.name == "decimal":
        wide = of.length > DECIMAL128
        return (pa.decimal256 if wide else pa.decimal128)(of.length, of.scale)
    return _ARROW.get(of.name, pa.binary() if of.binary else pa.string())
