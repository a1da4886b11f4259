"""The types of columns, and what is known about each."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa
import pyarrow.types as pt

from penstock.backends.shared.values.arrow import arrow_type, is_list
from penstock.backends.shared.values.created_types import CreatedTypes
from penstock.backends.shared.values.type_table import TypeLine, TypeTable
from penstock.errors import PermanentError
from penstock.model import table_model as model
from penstock.model.table_model import TableDefinition
from penstock.model.tables import Column

UTC = "UTC"
UNITS = {0: "s", 3: "ms", 6: "us", 9: "ns"}
_WHOLE = re.compile(r"U?Int\d+")
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_WORDS = re.compile(r"\s*(\w+)\s*(?:\((.*)\))?\s*", re.DOTALL)


@dataclass(frozen=True)
class ChType:
    """A type without the surrounding `Nullable` and `LowCardinality`."""

    name: str
    arguments: tuple[str, ...]
    nullable: bool
    text: str
    """The complete type as the server writes it."""

    def __str__(self) -> str:
        return self.text

    @property
    def is_integer(self) -> bool:
        return _WHOLE.fullmatch(self.name) is not None

    @property
    def digits(self) -> tuple[int, int]:
        """The precision and scale of a decimal."""
        return int(self.arguments[0]), int(self.arguments[1])

    @cached_property
    def element(self) -> ChType:
        """The element type of an array."""
        return parse(self.arguments[0])


def parse(text: str) -> ChType:
    """Parse a type as the server writes it."""
    name, arguments = _split(text)
    nullable = False
    inner = text
    while name in ("Nullable", "LowCardinality"):
        nullable = nullable or name == "Nullable"
        inner = arguments[0]
        name, arguments = _split(inner)
    return ChType(name, arguments, nullable, text)


def _split(text: str) -> tuple[str, tuple[str, ...]]:
    match = _WORDS.fullmatch(text)
    if match is None:
        raise PermanentError(f"expected a ClickHouse type, found {text!r}")
    return match[1], tuple(_arguments(match[2] or ""))


def _arguments(text: str) -> list[str]:
    """Divide a text at commas outside brackets and quotes."""
    parts, depth, quoted, start, at = [], 0, False, 0, 0
    while at < len(text):
        sign = text[at]
        if quoted:
            at += sign == "\\"
            quoted = sign != "'"
        elif sign == "'":
            quoted = True
        elif sign in "()":
            depth += 1 if sign == "(" else -1
        elif sign == "," and not depth:
            parts.append(text[start:at].strip())
            start = at + 1
        at += 1
    return [*parts, text[start:].strip()] if text.strip() else []


class _CreatedChTypes(CreatedTypes):
    """The types of created columns; NULL is part of a type."""

    def of_all(
        self, columns: Sequence[Column], definition: TableDefinition, excluded: Collection[str] = ()
    ) -> dict[str, str]:
        return {each.name: self.of_column(each) for each in columns if each.name not in excluded}

    def of_column(self, column: Column) -> str:
        """Return the type for a column.

        Args:
            column: with the trait `arrow`.

        Raises:
            PlanningError: ClickHouse has no such type.
        """
        kind = arrow_type(column)
        if is_list(kind):
            return f"Array(Nullable({self.of(kind.value_type, column.name)}))"
        type_ = self.of(kind, column.name)
        return f"Nullable({type_})" if column.nullable else type_

    def of(self, kind: pa.DataType, name: str) -> str:
        if pt.is_date(kind):
            return "Date32"
        return _DECIMAL.sub(r"Decimal(\1, \2)", super().of(kind, name))


class _ChTypes(TypeTable[ChType]):
    def line(self, type_: ChType) -> TypeLine[ChType]:
        if type_.name == "Array" and type_.element.name in _PLAIN:
            return _LIST
        return super().line(type_)

    def in_arrow(self, column: Column, type_: ChType) -> Column:
        # The user may have written the type differently from the server.
        column = replace(column, type=str(type_), nullable=type_.nullable)
        return super().in_arrow(column, type_)


def _list(of: ChType) -> pa.DataType:
    return pa.list_(pa.field("item", TYPES.arrow_type(of.element), of.element.nullable))


def _decimal(of: ChType) -> pa.DataType:
    digits, scale = of.digits
    return pa.decimal128(digits, scale) if digits <= 38 else pa.decimal256(digits, scale)


def _moment(of: ChType) -> pa.DataType:
    digits = int(of.arguments[0])
    return pa.timestamp(next(UNITS[most] for most in UNITS if digits <= most), UTC)


def _lowered(of: ChType) -> str:
    return str(of).lower()


_TIMES = {unit: f"DateTime64({digits}, '{UTC}')" for digits, unit in UNITS.items()}
MADE = _CreatedChTypes(
    database="ClickHouse",
    boolean="Bool",
    signed={bits: f"Int{bits}" for bits in (8, 16, 32, 64)},
    unsigned={bits: f"UInt{bits}" for bits in (8, 16, 32, 64)},
    floats={32: "Float32", 64: "Float64"},
    digits=(76, 76),
    text="String",
    bytes="String",
    uuid="UUID",
    json="String",
    # The server's own type for times of day is recent, and must be enabled.
    time=dict.fromkeys(UNITS.values(), "String"),
    timestamp=_TIMES,
    zoned=_TIMES,
)
# Types whose arrays travel as lists.
_PLAIN: Mapping[str, TypeLine[ChType]] = {
    "Bool": TypeLine(pa.bool_(), "bool", model.BOOLEAN),
    "Int8": TypeLine(pa.int8(), "int2", model.INTEGER),
    "Int16": TypeLine(pa.int16(), "int2", model.INTEGER),
    "Int32": TypeLine(pa.int32(), "int4", model.INTEGER),
    "Int64": TypeLine(pa.int64(), "int8", model.INTEGER),
    "UInt8": TypeLine(pa.uint8(), "int2", model.INTEGER),
    "UInt16": TypeLine(pa.uint16(), "int4", model.INTEGER),
    "UInt32": TypeLine(pa.uint32(), "int8", model.INTEGER),
    "UInt64": TypeLine(pa.uint64(), "numeric", model.INTEGER),
    "Float32": TypeLine(pa.float32(), "float4", model.FLOAT),
    "Float64": TypeLine(pa.float64(), "float8", model.FLOAT),
    "String": TypeLine(pa.string(), "text", model.TEXT),
    "Date": TypeLine(pa.date32(), "date", model.DATE),
    "Date32": TypeLine(pa.date32(), "date", model.DATE),
}
_TEXT, _JSON = "toString({})", "toJSONString({})"
_WIDE: TypeLine[ChType] = TypeLine(pa.string(), "numeric", model.INTEGER, _TEXT)
_ENUM: TypeLine[ChType] = TypeLine(pa.string(), "enum", model.ENUM, _TEXT)
_NESTED: TypeLine[ChType] = TypeLine(pa.string(), _lowered, travels=_JSON)
_LIST: TypeLine[ChType] = TypeLine(_list, _lowered, model.ARRAY)
TYPES = _ChTypes(
    {
        **_PLAIN,
        **dict.fromkeys(("Int128", "UInt128", "Int256", "UInt256"), _WIDE),
        **dict.fromkeys(("Enum8", "Enum16"), _ENUM),
        **dict.fromkeys(("Map", "Tuple", "Nested"), _NESTED),
        "Array": replace(_NESTED, kind=model.ARRAY),
        "Decimal": TypeLine(_decimal, "numeric", model.DECIMAL),
        "FixedString": TypeLine(pa.binary(), "bytea", model.BYTES),
        "DateTime": TypeLine(
            pa.timestamp("s", UTC),
            "timestamptz",
            model.MOMENT,
            f"toDateTime64({{}}, 0, '{UTC}')",
        ),
        "DateTime64": TypeLine(_moment, "timestamptz", model.MOMENT),
        "UUID": TypeLine(pa.uuid(), "uuid", model.UUID, _TEXT),
    },
    default=TypeLine(pa.string(), _lowered, travels=_TEXT),
    # They travel with all of their digits.
    finer=lambda value, of: "",
    too_fine="",
    created=MADE,
    # It becomes part of our statement.
    type_pattern=re.compile(r"\s*[A-Za-z]\w*\s*(?:\((?:[^';]|'(?:[^'\\]|\\.)*')*\))?\s*"),
)
