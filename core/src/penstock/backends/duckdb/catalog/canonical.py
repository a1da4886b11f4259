"""Canonical texts of values, as defined by the types page for every system."""

from __future__ import annotations

from penstock.backends.sql.dialect import Type

_WHOLE = (
    "tinyint", "smallint", "integer", "bigint", "hugeint",
    "utinyint", "usmallint", "uinteger", "ubigint", "uhugeint",
)  # fmt: skip
_STAMPS = ("timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns", "timestamp with time zone")
_ZONED_NS = "timestamptz_ns"


def canonical(value: str, type_: Type, kind: str) -> str:
    """Return the canonical text of a value; see `Dialect.canonical`.

    Args:
        value: the value, as an expression.
        type_: its type, as the session describes it.
        kind: as in `ColumnPair.canonical`.
    """
    text = f"CAST({value} AS VARCHAR)"
    type_id = type_.id
    match kind:
        case "integer":
            return text if type_id in _WHOLE else f"CAST(CAST({value} AS HUGEINT) AS VARCHAR)"
        case "decimal":
            if type_id in ("float", "double"):
                text = f"CASE WHEN isnan({value}) THEN 'NaN' ELSE {text} END"
            if type_id == "decimal" and _all_fraction(type_):
                text = f"replace({text}, '.', '0.')"  # DuckDB writes .5
            trimmed = f"rtrim(rtrim({text}, '0'), '.')"
            return f"CASE WHEN contains({text}, '.') THEN {trimmed} ELSE {text} END"
        case "float":
            wide = f"CAST({value} AS DOUBLE)"
            bits = f"CAST(CAST({wide} AS BIT) AS VARCHAR)"
            return f"CASE WHEN isnan({wide}) THEN 'NaN' ELSE {bits} END"
        case "boolean" if type_id in _WHOLE:
            return f"CASE {value} WHEN 0 THEN 'false' WHEN 1 THEN 'true' ELSE {text} END"
        case "boolean":
            return f"CAST(CAST({value} AS BOOLEAN) AS VARCHAR)"
        case "bytes":
            return (
                f"lower(hex({value}))"
                if type_id == "blob"
                else f"lower(hex(CAST({value} AS BLOB)))"
            )
        case "date":
            days = f"(CAST({value} AS DATE) - DATE '1970-01-01')"
            return (
                f"CASE WHEN isfinite(CAST({value} AS DATE)) THEN CAST({days} AS VARCHAR) ELSE "
                f"{text} END"
            )
        case "time" if type_id == "time_ns":
            return _with_nanoseconds(value)
        case "time":
            return f"CAST(epoch_us(CAST({value} AS TIME)) AS VARCHAR)"
        case "timestamp":
            # The session's time zone is UTC.
            stamp_type = "TIMESTAMP_NS" if type_id == _ZONED_NS else "TIMESTAMP"
            stamp = value if type_id in _STAMPS else f"CAST({value} AS {stamp_type})"
            number = f"CAST(epoch_us({stamp}) AS VARCHAR)"
            if type_id in ("timestamp_ns", _ZONED_NS):
                number = _with_nanoseconds(stamp)
            return f"CASE WHEN isfinite({stamp}) THEN {number} ELSE {text} END"
        case "uuid":
            return f"lower(CAST(CAST({value} AS UUID) AS VARCHAR))"
        case _ if kind.startswith("list:") and type_id in ("list", "array"):
            element = canonical("e", type_.children[0][1], kind.removeprefix("list:"))
            return (
                f"'{{' || array_to_string(list_transform({value}, lambda e: "
                f"{framed(element)}), ',') || '}}'"
            )
        case _:
            return text


def _with_nanoseconds(value: str) -> str:
    """Return the microseconds of a time, and the nanoseconds beyond them if there are any."""
    number = f"epoch_ns({value})"
    beyond = f"(({number} % 1000 + 1000) % 1000)"
    micros = f"CAST(({number} - {beyond}) // 1000 AS VARCHAR)"
    digits = f"lpad(CAST({beyond} AS VARCHAR), 3, '0')"
    return f"CASE WHEN {beyond} = 0 THEN {micros} ELSE {micros} || '.' || {digits} END"


def _all_fraction(decimal: Type) -> bool:
    """Whether a decimal type has no digits before the decimal point."""
    of = dict(decimal.children)
    return bool(of["precision"] == of["scale"])


def framed(text: str) -> str:
    """See `Dialect.framed_text`."""
    return f"coalesce(CAST(strlen({text}) AS VARCHAR) || ':' || {text}, '-')"
