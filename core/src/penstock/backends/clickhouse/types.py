"""The types of columns, and in what form their values travel."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from penstock.errors import PermanentError

UTC = "UTC"
_ARROW = {
    "Bool": pa.bool_(),
    **{f"Int{bits}": getattr(pa, f"int{bits}")() for bits in (8, 16, 32, 64)},
    **{f"UInt{bits}": getattr(pa, f"uint{bits}")() for bits in (8, 16, 32, 64)},
    "Float32": pa.float32(),
    "Float64": pa.float64(),
    "String": pa.string(),
    "FixedString": pa.binary(),
    "Date": pa.date32(),
    "Date32": pa.date32(),
    "DateTime": pa.timestamp("s", UTC),
    "UUID": pa.uuid(),
}
UNITS = {0: "s", 3: "ms", 6: "us", 9: "ns"}
_WHOLE = re.compile(r"U?Int\d+")
_WORDS = re.compile(r"\s*(\w+)\s*(?:\((.*)\))?\s*", re.DOTALL)


@dataclass(frozen=True)
class ChType:
    """A type without the `Nullable` and `LowCardinality` around it."""

    name: str
    arguments: tuple[str, ...]
    nullable: bool
    text: str
    """As the server writes all of it."""

    def __str__(self) -> str:
        return self.text

    @property
    def is_whole(self) -> bool:
        return _WHOLE.fullmatch(self.name) is not None

    @property
    def digits(self) -> tuple[int, int]:
        """Of a decimal, all of them and those behind the point."""
        return int(self.arguments[0]), int(self.arguments[1])

    @cached_property
    def element(self) -> ChType:
        """Of an array."""
        return parse(self.arguments[0])


def parse(text: str) -> ChType:
    """A type as the server writes it."""
    name, arguments = _split(text)
    nullable = False
    inner = text
    while name in ("Nullable", "LowCardinality"):
        nullable = nullable or name == "Nullable"
        inner = arguments[0]
        name, arguments = _split(inner)
    return ChType(name, arguments, nullable, text)


def _split(text: str) -> tuple[str, tuple[str, ...]]:
    found = _WORDS.fullmatch(text)
    if found is None:
        raise PermanentError(f"the type {text!r} of ClickHouse cannot be read")
    return found[1], tuple(_arguments(found[2] or ""))


def _arguments(text: str) -> list[str]:
    """What stands between commas that are in no brackets and no quotes."""
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


def arrow_type(of: ChType) -> pa.DataType:
    """In what type the values of a column travel: as text where Arrow has none for them."""
    if of.name == "Decimal":
        digits, scale = of.digits
        return pa.decimal128(digits, scale) if digits <= 38 else pa.decimal256(digits, scale)
    if of.name == "DateTime64":
        digits = int(of.arguments[0])
        return pa.timestamp(next(UNITS[most] for most in UNITS if digits <= most), UTC)
    if of.name == "Array" and _plain(of.element):
        return pa.list_(pa.field("item", arrow_type(of.element), of.element.nullable))
    return _ARROW.get(of.name, pa.string())


def _plain(of: ChType) -> bool:
    """Whether values are selected as they are."""
    return of.name in _ARROW and of.name not in ("DateTime", "FixedString", "UUID")


def travelling(value: str, of: ChType) -> str:
    """What is selected, so that the server writes it as the type in which it travels."""
    if of.name == "DateTime":
        return f"toDateTime64({value}, 0, '{UTC}')"
    if of.name in ("Decimal", "DateTime64") or of.name in _ARROW:
        return f"toString({value})" if of.name == "UUID" else value
    if of.name == "Array" and _plain(of.element):
        return value
    nested = of.name in ("Array", "Map", "Tuple", "Nested")
    return f"toJSONString({value})" if nested else f"toString({value})"
