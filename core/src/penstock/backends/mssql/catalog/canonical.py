"""Canonical texts of values, as defined by the types page for every system."""

from __future__ import annotations

from penstock.backends.sql.dialect import Type

TEXT = "nvarchar(max)"
# For the bytes that a text has in other systems. From SQL Server 2019 on.
UTF8 = "Latin1_General_100_BIN2_UTF8"
_DIGITS = "0123456789ABCDEF"


def canonical(value: str, type_: Type, kind: str) -> str:
    """Return the canonical text of a value, as an expression; see `Dialect.canonical`.

    Args:
        value: the value, as an expression.
        type_: the type of the value.
        kind: the kind of the value, as in `ColumnPair.canonical`.
    """
    text = f"CAST({value} AS {TEXT})"
    match kind:
        case "decimal":
            plain = f"CAST({value} AS varchar(60))"
            if type_.name in ("money", "smallmoney"):
                plain = f"CONVERT(varchar(60), {value}, 2)"
            # Before SQL Server 2022 no function removes zeros.
            trimmed = f"REPLACE(RTRIM(REPLACE({plain}, '0', ' ')), ' ', '0')"
            integer = f"REPLACE({trimmed}, '.', '')"
            return (
                f"CASE WHEN CHARINDEX('.', {plain}) = 0 THEN {plain}"
                f" WHEN RIGHT({trimmed}, 1) = '.' THEN {integer} ELSE {trimmed} END"
            )
        case "boolean":
            return f"CASE {value} WHEN 0 THEN 'false' WHEN 1 THEN 'true' ELSE {text} END"
        case "bytes":
            if type_.name in ("geometry", "geography"):
                value = f"{value}.STAsBinary()"
            wide = f"CAST({value} AS varbinary(max))"
            return f"LOWER(CONVERT(varchar(max), {wide}, 2))"
        case "date" | "time" | "timestamp":
            return f"CAST({units_since_epoch(value, type_, kind)} AS varchar(20))"
        case "uuid":
            return f"LOWER(CAST({value} AS varchar(36)))"
        case "float":
            return _bits(value)
        case _:
            if type_.name == "hierarchyid":
                return f"{value}.ToString()"
            return f"CAST({value} AS nvarchar(4000))" if type_.name == "sql_variant" else text


def units_since_epoch(value: str, type_: Type, kind: str) -> str:
    """Return the days of a date since 1970, or the microseconds of a time.

    They count from midnight for a time of day, and from 1970 in UTC for a moment.

    Args:
        value: the expression to convert.
        type_: its type.
        kind: `date`, `time` or `timestamp`.
    """
    if kind == "date":
        return f"DATEDIFF(day, '1970-01-01', {value})"
    if kind == "time":
        return f"DATEDIFF_BIG(microsecond, '00:00', {value})"
    # A datetime counts thirds of a hundredth of a second, which the driver rounds like this.
    since = f"CAST({value} AS datetime2({3 if type_.name == 'datetime' else 7}))"
    if type_.name == "datetimeoffset":
        since = f"CAST(SWITCHOFFSET({value}, '+00:00') AS datetime2(7))"
    return f"DATEDIFF_BIG(microsecond, '1970-01-01', {since})"


def _bits(value: str) -> str:
    """Return the 64 bits of an IEEE 754 number."""
    hexadecimal = f"CONVERT(varchar(64), CAST(CAST({value} AS float) AS varbinary(8)), 2)"
    # First the digits that are used to write the others.
    digits = f"REPLACE(REPLACE({hexadecimal}, '0', 'g'), '1', 'h')"
    for number, digit in enumerate(_DIGITS[2:], 2):
        digits = f"REPLACE({digits}, '{digit}', '{number:04b}')"
    return f"REPLACE(REPLACE({digits}, 'g', '0000'), 'h', '0001')"
