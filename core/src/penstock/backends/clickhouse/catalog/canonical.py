"""Canonical texts of values, as defined by the types page for every system."""

from __future__ import annotations

from penstock.backends.clickhouse.types import UTC, ChType

_MICROSECONDS = 6


def canonical(value: str, type_: ChType, kind: str) -> str:
    """Return the canonical text of a value; see `Dialect.canonical`.

    Args:
        value: the value, as an expression.
        type_: its type, as the session describes it.
        kind: as in `ColumnPair.canonical`.
    """
    text = _canonical_text(value, type_, kind)
    if text == f"toString({value})":
        return text  # NULL for NULL
    return f"if(isNull({value}), NULL, {text})"


def _canonical_text(value: str, type_: ChType, kind: str) -> str:
    text = f"toString({value})"
    match kind:
        case "integer":
            return text if type_.is_integer else f"toString(toInt256({value}))"
        case "decimal":
            trimmed = f"trimRight(trimRight({text}, '0'), '.')"
            return text if type_.is_integer else f"if(position({text}, '.') > 0, {trimmed}, {text})"
        case "float":
            wide = f"toFloat64({value})"
            bits = f"leftPad(bin(reinterpretAsUInt64(assumeNotNull({wide}))), 64, '0')"
            return f"if(isNaN({wide}), 'NaN', {bits})"
        case "boolean":
            return f"multiIf({value} = 0, 'false', {value} = 1, 'true', toString({value}))"
        case "bytes":
            return f"lower(hex({value}))"
        case "date":
            return f"toString(toInt32(toDate32({value})))"
        case "timestamp":
            if type_.name == "DateTime64" and int(type_.arguments[0]) > _MICROSECONDS:
                return _with_nanoseconds(f"toDateTime64({value}, 9, '{UTC}')")
            moment = f"toDateTime64({value}, {_MICROSECONDS}, '{UTC}')"
            return f"toString(toUnixTimestamp64Micro({moment}))"
        case "uuid":
            return f"lower({text})"
        case _ if kind.startswith("list:") and type_.name == "Array":
            element = canonical("e", type_.element, kind.removeprefix("list:"))
            inner = f"arrayStringConcat(arrayMap(e -> {framed(element)}, {value}), ',')"
            return f"concat('{{', {inner}, '}}')"
        case _:
            return text


def _with_nanoseconds(moment: str) -> str:
    """Return the microseconds of a moment, and the nanoseconds beyond them if there are any."""
    number = f"toUnixTimestamp64Nano(assumeNotNull({moment}))"
    beyond = f"positiveModulo({number}, 1000)"
    micros = f"toString(intDiv({number} - {beyond}, 1000))"
    digits = f"leftPad(toString({beyond}), 3, '0')"
    return f"if({beyond} = 0, {micros}, concat({micros}, '.', {digits}))"


def framed(text: str) -> str:
    """See `Dialect.framed_text`."""
    return f"coalesce(concat(toString(length({text})), ':', {text}), '-')"
