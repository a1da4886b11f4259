"""Canonical texts of values, as defined by the types page for every system."""

from __future__ import annotations

from penstock.backends.mysql.stream.geometries import with_srid_expression
from penstock.backends.sql.dialect import Type

_WHOLE = ("tinyint", "smallint", "mediumint", "int", "bigint", "bit", "year")


def canonical(value: str, type_: Type, kind: str) -> str:
    """Return the canonical text of a value, as an expression; see `Dialect.canonical`.

    Args:
        value: the value, as an expression.
        type_: the type of the value.
        kind: the kind of the value, as in `ColumnPair.canonical`.
    """
    # The result of a computation has no leading zeros from ZEROFILL, and a year is 0000.
    if type_.name in _WHOLE:
        value = f"({value} + 0)"
    elif type_.name == "decimal":
        value = f"(-(-{value}))"  # keeps the precision
    text = f"CONVERT({value} USING utf8mb4)"
    match kind:
        case "decimal":
            trimmed = f"TRIM(TRAILING '.' FROM TRIM(TRAILING '0' FROM {text}))"
            return f"CASE WHEN locate('.', {text}) THEN {trimmed} ELSE {text} END"
        case "boolean":
            return f"CASE {value} WHEN 0 THEN 'false' WHEN 1 THEN 'true' ELSE {text} END"
        case "bytes":
            # ST_AsBinary omits the reference system, and exchanges coordinates of some.
            spatial = type_.name == "geometry"
            digits = with_srid_expression(value) if spatial else f"lower(hex({value}))"
            return f"CONVERT({digits} USING utf8mb4)"
        case "date":
            return f"CONVERT(to_days({value}) - 719528 USING utf8mb4)"
        case "time":
            since = f"timestamp('1970-01-01', {value})"
            return f"CONVERT(timestampdiff(MICROSECOND, '1970-01-01', {since}) USING utf8mb4)"
        case "timestamp":
            micros = f"timestampdiff(MICROSECOND, '1970-01-01', {value})"
            return f"CONVERT({micros} USING utf8mb4)"
        case "uuid":
            return f"lower({text})"
        case "float":
            return _bits(value)
        case _:
            return text


def _bits(value: str) -> str:
    """Return the 64 bits of an IEEE 754 number, for which there is no function.

    They are the bits of ``(exponent + 1022) * 2^52 + mantissa``; this also holds below 2^-1022,
    where the mantissa has no leading bit.
    """
    wide = f"({value} + 0e0)"
    size = f"abs({wide})"
    guess = f"least(greatest(floor(log2({size})), -1022), 1023)"
    # A logarithm may be rounded up or down to the next whole number.
    exponent = (
        f"({guess} + CASE WHEN {size} / 2 >= pow(2, {guess}) THEN 1"
        f" WHEN {size} < pow(2, {guess}) AND {guess} > -1022 THEN -1 ELSE 0 END)"
    )
    # In two steps, because 2^1074 cannot be represented.
    half = f"floor((52 - {exponent}) / 2)"
    mantissa = f"CAST({size} * pow(2, {half}) * pow(2, 52 - {exponent} - {half}) AS UNSIGNED)"
    number = f"CAST({exponent} + 1022 AS UNSIGNED) * 4503599627370496 + {mantissa}"
    sign = f"CASE WHEN left(CONVERT({value} USING utf8mb4), 1) = '-' THEN '1' ELSE '0' END"
    bits = f"CASE WHEN {wide} = 0 THEN '' ELSE bin({number}) END"
    return f"CONVERT(concat({sign}, lpad({bits}, 63, '0')) USING utf8mb4)"
