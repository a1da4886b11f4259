"""Names and values as DuckDB's SQL writes them, and what an untrusted text may be within it.

Bounds are written as every backend writes them: `penstock.model.Bound` says what its tags mean.
"""

from __future__ import annotations

import re
from decimal import Decimal

from penstock.errors import PlanningError
from penstock.model.extents import Bound

# Tags that all backends share, and the type that has them here.
TAGS = {
    "bool": "BOOLEAN",
    "int2": "SMALLINT",
    "int4": "INTEGER",
    "int8": "BIGINT",
    "float4": "FLOAT",
    "float8": "DOUBLE",
    "text": "VARCHAR",
    "varchar": "VARCHAR",
    "bpchar": "VARCHAR",
    "date": "DATE",
    "time": "TIME",
    "timestamp": "TIMESTAMP",
    "timestamptz": "TIMESTAMP WITH TIME ZONE",
    "uuid": "UUID",
    "bytea": "BLOB",
}
TEXTS = ("text", "varchar", "bpchar")
WHOLE_NUMBERS = ("int2", "int4", "int8")
TIMES = ("date", "timestamp", "timestamptz")
_WHOLE = re.compile(r"\s*[+-]?\d+\s*")
_NUMBER = re.compile(r"\s*([+-]?)(\d*)(?:\.(\d*))?(?:[eE][+-]?\d+)?\s*")
_HEX = re.compile(r"\\x((?:[0-9a-fA-F]{2})*)")
# A type of DuckDB's own, as a tag: a plain word.
_OWN = re.compile(r"[a-z_][a-z0-9_ ]*")
MOST_DIGITS = 38


def ident(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """
    Raises:
        PlanningError: it holds a NUL, which no text in SQL can.
    """
    if "\0" in text:
        raise PlanningError(f"expected a text without NUL, found {text!r}")
    return "'" + text.replace("'", "''") + "'"


def raw(text: str) -> str:
    """SQL that somebody wrote, as one operand; a comment at its end ends with its line."""
    return f"(\n{text}\n)"


def bound_value(bound: Bound) -> str:
    """A bound as SQL.

    Raises:
        PlanningError: the text is no value of the type.
    """
    kind, text = bound.type, bound.text
    if kind in WHOLE_NUMBERS and not _WHOLE.fullmatch(text):
        raise _no_value(bound)
    if kind == "numeric":
        return _number(bound)
    if kind == "bytea":
        found = _HEX.fullmatch(text)
        if found is None:
            raise _no_value(bound)
        return f"unhex('{found[1]}')"
    if kind in TIMES and text.endswith(" BC"):
        text = text.removesuffix(" BC") + " (BC)"
    return f"CAST({literal(text)} AS {type_of(kind)})"


def _number(bound: Bound) -> str:
    if bound.text.strip().lower() in ("nan", "infinity", "-infinity"):
        return f"CAST({literal(bound.text.strip())} AS DOUBLE)"
    found = _NUMBER.fullmatch(bound.text)
    if found is None or not (found[2] or found[3]):
        raise _no_value(bound)
    plain = format(Decimal(bound.text.strip()), "f")
    whole, _, fraction = plain.lstrip("+-").partition(".")
    digits = max(1, len(whole.lstrip("0")) + len(fraction))
    if digits > MOST_DIGITS:
        if fraction:
            raise PlanningError(
                f"expected a number of {MOST_DIGITS} digits at most, found {bound.text!r}"
            )
        return f"CAST({literal(plain)} AS HUGEINT)"
    return f"CAST({literal(plain)} AS DECIMAL({digits},{len(fraction)}))"


def _no_value(bound: Bound) -> PlanningError:
    return PlanningError(f"expected a value of type {bound.type}, found {bound.text!r}")


def type_of(tag: str) -> str:
    """
    Raises:
        PlanningError: another system's tag.
    """
    if tag in TAGS:
        return TAGS[tag]
    if _OWN.fullmatch(tag) is None:
        raise PlanningError(f"DuckDB has no type {tag!r}, which a bound of the key has")
    return tag.upper()


def bound_text(tag: str, value: str) -> str:
    """SQL that writes a value as the text of a bound."""
    if tag in ("float4", "float8"):
        return (
            f"CASE WHEN isnan({value}) THEN 'NaN' WHEN isinf({value}) AND {value} > 0 THEN "
            f"'Infinity' WHEN isinf({value}) THEN '-Infinity' ELSE CAST({value} AS VARCHAR) END"
        )
    if tag == "bytea":
        return f"'\\x' || lower(hex({value}))"
    if tag in TIMES:
        return f"replace(CAST({value} AS VARCHAR), ' (BC)', ' BC')"
    return f"CAST({value} AS VARCHAR)"


def comparable(tag: str, value: str) -> str:
    """A key's value as it is compared: texts by their bytes, whatever the column's collation."""
    return f"CAST({value} AS VARCHAR) COLLATE C" if tag in TEXTS else value
