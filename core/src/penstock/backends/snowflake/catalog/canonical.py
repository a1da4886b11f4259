"""Canonical texts of values, as defined by the types page for every system."""

from __future__ import annotations

from penstock.backends.snowflake.types import SEMI_STRUCTURED
from penstock.backends.sql.dialect import Type

_DIGITS = "0123456789ABCDEF"


def canonical(value: str, type_: Type, kind: str) -> str:
    """Return the canonical text of a value; see `Dialect.canonical`.

    Args:
        value: the value, as an expression.
        type_: its type, as the session describes it.
        kind: as in `ColumnPair.canonical`.
    """
    text = f"CAST({value} AS VARCHAR)"
    match kind:
        case "decimal":
            trimmed = f"REGEXP_REPLACE({text}, '[.]?0*$', '')"
            return f"CASE WHEN CONTAINS({text}, '.') THEN {trimmed} ELSE {text} END"
        case "integer":
            return f"CAST(CAST({value} AS NUMBER(38,0)) AS VARCHAR)"
        case "boolean" if type_.name != "boolean":
            return f"CASE {value} WHEN 0 THEN 'false' WHEN 1 THEN 'true' ELSE {text} END"
        case "boolean":
            truth = f"CAST({value} AS BOOLEAN)"
            return f"CASE {truth} WHEN TRUE THEN 'true' WHEN FALSE THEN 'false' END"
        case "bytes":
            return f"LOWER(HEX_ENCODE({value}))"
        case "date":
            return f"CAST(DATEDIFF(day, CAST('1970-01-01' AS DATE), {value}) AS VARCHAR)"
        case "time":
            since = f"DATEDIFF(microsecond, CAST('00:00:00' AS TIME), {value})"
            return f"CAST({since} AS VARCHAR)"
        case "timestamp":
            return f"CAST(DATE_PART(EPOCH_MICROSECOND, {value}) AS VARCHAR)"
        case "uuid":
            return f"LOWER({text})"
        case "float":
            return _bits(value if type_.name == "float" else f"CAST({value} AS FLOAT)")
    return f"TO_JSON({value})" if type_.name in SEMI_STRUCTURED else text


def _bits(value: str) -> str:
    """Return the 64 bits of an IEEE 754 number, for which there is no function.

    They are the bits of ``(exponent + 1022) * 2^52 + mantissa``; this also holds below 2^-1022,
    where the mantissa has no leading bit.
    """
    size = f"ABS({value})"
    guess = f"LEAST(GREATEST(FLOOR(LOG(2, {size})), -1022), 1023)"
    # A logarithm may be rounded up or down to the next whole number.
    exponent = (
        f"({guess} + CASE WHEN {size} / 2 >= POWER(2, {guess}) THEN 1"
        f" WHEN {size} < POWER(2, {guess}) AND {guess} > -1022 THEN -1 ELSE 0 END)"
    )
    # In two steps, because 2^1074 cannot be represented.
    mantissa = f"{size} * POWER(2, -8 - {exponent}) * {2**60}"
    number = f"CAST({exponent} + 1022 AS NUMBER(38,0)) * {2**52} + CAST({mantissa} AS NUMBER(38,0))"
    digits = f"LPAD(TRIM(TO_CHAR({number}, '{'X' * 16}')), 16, '0')"
    # First the digits that are used to write the others.
    digits = f"REPLACE(REPLACE({digits}, '0', 'g'), '1', 'h')"
    for place, digit in enumerate(_DIGITS[2:], 2):
        digits = f"REPLACE({digits}, '{digit}', '{place:04b}')"
    digits = f"REPLACE(REPLACE({digits}, 'g', '0000'), 'h', '0001')"
    bits = (
        f"CASE WHEN {value} = 0 THEN '{'0' * 63}' WHEN {size} = CAST('inf' AS FLOAT)"
        f" THEN '{'1' * 11}{'0' * 52}' ELSE SUBSTR({digits}, 2) END"
    )
    sign = f"IFF(LEFT(CAST({value} AS VARCHAR), 1) = '-', '1', '0')"
    return f"CASE WHEN {value} = CAST('NaN' AS FLOAT) THEN 'NaN' ELSE {sign} || {bits} END"
