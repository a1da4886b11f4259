"""Values that Arrow's CSV reader cannot parse, or rejects, converted from the server's text.

The texts follow our session settings: ISO dates, UTC.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from penstock.backends.shared.texts.plain_values import days, microseconds, microseconds_of_day
from penstock.backends.shared.values.hex_values import from_hex, uuids
from penstock.backends.shared.values.text_values import checked


def parse(texts: pa.Array, type_: pa.DataType) -> pa.Array:
    """Convert texts to an Arrow array of a type.

    Args:
        texts: of type binary; see `expression` for what they hold.
        type_: the type.

    Raises:
        Refused: the type cannot hold a value; names the first.
    """
    return checked(texts, lambda part: _parse(part.cast(pa.string()), type_))


def _parse(texts: pa.Array, type_: pa.DataType) -> pa.Array:
    """Convert texts to a type, or fail for all of them.

    Raises:
        ValueError: the type cannot represent a value. This includes `pyarrow.ArrowInvalid`.
    """
    if pa.types.is_string(type_):
        return texts
    if pa.types.is_dictionary(type_):
        return texts.dictionary_encode()
    if pa.types.is_list(type_):
        return lists(texts, type_)
    if type_ == pa.uuid():
        return uuids(texts)
    if pa.types.is_binary(type_):
        return from_hex(texts)
    if pa.types.is_boolean(type_):
        return _convert_each(
            texts, {"t": True, "f": False, "true": True, "false": False}.__getitem__, type_
        )
    if pa.types.is_date32(type_):
        return _convert_each(texts, days, pa.int32()).view(type_)
    if pa.types.is_time64(type_):
        return _convert_each(texts, microseconds_of_day, pa.int64()).view(type_)
    if pa.types.is_timestamp(type_):
        return _convert_each(texts, microseconds, pa.int64()).view(type_)
    return texts.cast(type_)


def _convert_each(texts: pa.Array, read: Callable[[str], Any], type_: pa.DataType) -> pa.Array:
    values = (None if text is None else read(text) for text in texts.to_pylist())
    try:
        return pa.array(values, type_)
    except (KeyError, OverflowError) as error:
        raise ValueError(str(error)) from error


def lists(texts: pa.Array, type_: pa.DataType) -> pa.Array:
    """Convert JSON arrays of texts to lists.

    Raises:
        ValueError: an array has other dimensions than the type.
    """
    rows = json.loads(f"[{','.join('null' if t is None else t for t in texts.to_pylist())}]")
    return _nested(rows, type_)


def _nested(values: list[Any], type_: pa.DataType) -> pa.Array:
    if not pa.types.is_list(type_):
        if any(isinstance(value, list) for value in values):
            raise ValueError("more dimensions than declared")
        return _element(pa.array(values, pa.string()), type_)
    if not all(value is None or isinstance(value, list) for value in values):
        raise ValueError("fewer dimensions than declared")
    ends = [0]
    for value in values:
        ends.append(ends[-1] + len(value or ()))
    inner = _nested([item for value in values for item in value or ()], type_.value_type)
    missing = pa.array([value is None for value in values], pa.bool_())
    return pa.ListArray.from_arrays(
        pa.array(ends, pa.int32()), inner, type=type_, mask=missing if None in values else None
    )


def _element(texts: pa.Array, type_: pa.DataType) -> pa.Array:
    """Convert elements from the text of a cast, as types with another travelling form need it."""
    if type_ == pa.uuid():
        return uuids(pc.replace_substring(texts, "-", ""))
    if pa.types.is_binary(type_):
        return from_hex(pc.utf8_slice_codeunits(texts, len(r"\x")))
    return _parse(texts, type_)
