"""Arrays as texts that the server parses, for every type without a binary form."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.backends.postgresql.arrow.families import family, family_of, unwrap
from penstock.backends.postgresql.catalog.datatypes import DataType
from penstock.backends.shared.texts.plain_texts import is_usual, plain_texts
from penstock.backends.shared.values.arrow import compacted, is_list
from penstock.backends.shared.values.hex_values import to_hex, uuid_texts


def simplify(array: pa.Array) -> pa.Array:
    """Unwrap dictionaries, run-end encoding, list views and extension types."""
    type_ = array.type
    if pa.types.is_dictionary(type_):
        return simplify(array.dictionary_decode())
    if pa.types.is_run_end_encoded(type_):
        return simplify(pc.run_end_decode(array))
    if isinstance(type_, pa.BaseExtensionType):
        return simplify(array.storage)
    if pa.types.is_list_view(type_) or pa.types.is_large_list_view(type_):
        # Casting them yields lists with wrong offsets (pyarrow 26).
        lengths = pc.fill_null(pc.list_value_length(array), 0).to_pylist()
        ends = pa.array(itertools.accumulate(lengths, initial=0), pa.int64())
        return pa.LargeListArray.from_arrays(
            ends, array.flatten(), mask=array.is_null() if array.null_count else None
        )
    if pa.types.is_fixed_size_list(type_):
        return array.cast(pa.list_(type_.value_field))
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return compacted(array)
    return array


def texts(array: pa.Array, target: DataType) -> pa.Array:
    """Convert an array to the texts that the target's type accepts.

    Raises:
        ValueError: a value has no text in that type. This includes `pyarrow.ArrowInvalid`.
    """
    mine, theirs = family(array.type), family_of(target)
    type_ = unwrap(array.type)
    array = simplify(array)
    if mine == "null":
        return pa.nulls(len(array), pa.string())
    if mine in ("list", "struct", "map", "union"):
        if theirs == "array":
            return pa.array(_array_literals(array, target.bare.components[0]), pa.string())
        if theirs == "composite":
            return pa.array(_composites(array, target.bare.components), pa.string())
        return _convert_each(array, as_json)
    if mine == "uuid" or (mine == "bytes" and theirs == "uuid"):
        return uuid_texts(array)
    if mine == "bytes" and theirs == "bytes":
        return hexadecimal(array)
    if mine in ("decimal", "date", "time"):
        return plain_texts(array)
    if mine == "timestamp":
        # The session's time zone is UTC.
        return plain_texts(array.cast(pa.timestamp("us", type_.tz)), "+00")
    if mine == "integer" and theirs == "number":
        # The server would wrap numbers that are negative or too large.
        wide = target.bare.name == "xid8"
        return array.cast(pa.uint64() if wide else pa.uint32()).cast(pa.string())
    if mine == "duration":
        return pc.binary_join_element_wise(
            array.cast(pa.duration("us")).view(pa.int64()).cast(pa.string()), "microseconds", " "
        )
    if mine == "interval":
        return _convert_each(array, _interval)
    return validate(array.cast(pa.string()))


def validate(array: pa.Array) -> pa.Array:
    """Validate the encoding of an array of texts.

    Raises:
        pyarrow.ArrowInvalid: a text is not UTF-8, which may not have been checked before.
    """
    array.validate(full=True)
    return array


def _convert_each(array: pa.Array, write: Callable[[Any], str]) -> pa.Array:
    _check_times(array)
    try:
        values = array.to_pylist(maps_as_pydicts="strict")
    # A date beyond Python's range, a duplicate key, or a list as a key.
    except (OverflowError, KeyError, TypeError) as error:
        raise ValueError(str(error)) from error
    return pa.array((None if value is None else write(value) for value in values), pa.string())


def hexadecimal(array: pa.Array) -> pa.Array:
    """Return binary values in the server's hexadecimal form."""
    prefix, nothing = (pa.scalar(text, pa.large_string()) for text in (r"\x", ""))
    return pc.binary_join_element_wise(prefix, to_hex(array), nothing)


def _interval(value: Any) -> str:
    if value.nanoseconds % 1000:
        raise ValueError(f"{value.nanoseconds} nanoseconds")
    return f"{value.months} mons {value.days} days {value.nanoseconds // 1000} microseconds"


def _check_times(array: pa.Array) -> None:
    """Check the times inside nested values.

    Raises:
        ValueError: a time exceeds a day; Python would silently change it.
    """
    type_ = array.type
    if pa.types.is_struct(type_):
        for part in array.flatten():
            _check_times(simplify(part))
    elif pa.types.is_map(type_):
        _check_times(simplify(array.keys))
        _check_times(simplify(array.items))
    elif is_list(type_):
        _check_times(simplify(array.flatten()))
    elif pa.types.is_time(type_) and not is_usual(array):
        raise ValueError("a time beyond a day")


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _array_literals(array: pa.Array, element: DataType) -> list[str | None]:
    """Return arrays as texts for array_in.

    https://www.postgresql.org/docs/current/arrays.html#ARRAYS-INPUT
    """
    separator = ";" if element.bare.identity == "pg_catalog.box" else ","
    array = simplify(array)
    inner: Sequence[str | None]
    if family(array.values.type) == "list":
        inner, outer = _array_literals(array.values, element), array.flatten()
        if outer.null_count or pc.any(pc.equal(pc.list_value_length(outer), 0)).as_py():
            # The server would turn these into other arrays: of fewer dimensions, or of NULLs.
            raise ValueError("an empty list, or NULL, in a list of lists")
    else:
        elements = texts(array.values, element).to_pylist()
        inner = [None if text is None else _quoted(text) for text in elements]
    offsets = array.offsets.to_pylist()
    return [
        "{" + separator.join("NULL" if text is None else text for text in inner[lower:upper]) + "}"
        if valid
        else None
        for lower, upper, valid in zip(
            offsets, offsets[1:], array.is_valid().to_pylist(), strict=False
        )
    ]


def _composites(array: pa.Array, parts: Sequence[DataType]) -> list[str | None]:
    """Return structs as texts for record_in.

    https://www.postgresql.org/docs/current/rowtypes.html#ROWTYPES-IO
    """
    columns = [
        texts(field, part).to_pylist() for field, part in zip(array.flatten(), parts, strict=True)
    ]
    return [
        "(" + ",".join("" if text is None else _quoted(text) for text in row) + ")"
        if valid
        else None
        for row, valid in zip(zip(*columns, strict=True), array.is_valid().to_pylist(), strict=True)
    ]


def as_json(value: Any) -> str:
    """Serialize a value as JSON.

    Raises:
        ValueError: a number has no JSON form, or two keys have the same text.
    """
    if isinstance(value, dict):
        members = {_key(key): as_json(item) for key, item in value.items()}
        if len(members) < len(value):
            raise ValueError("a key that is there twice")
        return "{" + ", ".join(f"{_json_text(k)}: {v}" for k, v in members.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(as_json, value)) + "]"
    if isinstance(value, Decimal):
        return format(value, "f")
    if value is None or isinstance(value, str | int | float):
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    return _json_text(_plain_text(value))


def _key(value: Any) -> str:
    if isinstance(value, str):
        return value
    return as_json(value) if isinstance(value, bool | Decimal) else _plain_text(value)


def _json_text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _plain_text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, date | datetime | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        # A float would lose digits.
        return format(Decimal(value // timedelta(microseconds=1)).scaleb(-6), "f")
    if isinstance(value, pa.MonthDayNano):
        return _interval(value)
    return str(value)
