"""Arrow arrays as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as is_

from penstock.backends.shared.texts.plain_texts import has_plain_text, is_usual, plain_texts


def json_texts(array: pa.Array) -> pa.Array:
    """Return the values of an array as JSON; NULL for NULL.

    Args:
        array: lists, structs or maps; a map becomes an object.

    Raises:
        ValueError: a time exceeds a day, or a map has a key twice.
    """
    return pa.array(_optional(array), pa.large_string())


def _optional(array: pa.Array) -> list[str | None]:
    """Return the values as JSON, column by column; None for NULL."""
    array = pa.concat_arrays([array])  # without the values outside a slice
    kind = array.type
    if isinstance(array, pa.ExtensionArray) and kind != pa.uuid():
        return _optional(array.storage)
    if is_.is_dictionary(kind):
        return _optional(array.dictionary_decode())
    valid = array.is_valid().to_pylist()
    if is_.is_map(kind):
        keys, items = _names(array.keys), _json(array.items)
        ends = array.offsets.to_pylist()
        found = [_object(keys[lower:upper], items[lower:upper]) for lower, upper in pairwise(ends)]
    elif is_.is_struct(kind):
        names = [_text(field.name) for field in kind]
        columns = [_json(part) for part in array.flatten()]
        rows = zip(*columns, strict=True) if columns else [()] * len(array)
        found = [_object(names, row) for row in rows]
    elif is_.is_nested(kind) and not is_.is_union(kind):
        items, found, end = _json(array.flatten()), [], 0
        for count in pc.fill_null(pc.list_value_length(array), 0).to_pylist():
            found.append(f"[{', '.join(items[end : end + count])}]")
            end += count
    else:
        return [None if value is None else _scalar(value) for value in _plain(array)]
    return [text if exists else None for text, exists in zip(found, valid, strict=True)]


def _json(array: pa.Array) -> list[str]:
    return ["null" if text is None else text for text in _optional(array)]


def _plain(array: pa.Array) -> list[Any]:
    """Return scalar values in Python's types, or as texts if these cannot hold them."""
    if not has_plain_text(array.type) or is_.is_decimal(array.type):
        return list(array.to_pylist())
    is_fine = getattr(array.type, "unit", "") == "ns" and pc.any(_has_nanoseconds(array)).as_py()
    if is_usual(array) and not is_fine:
        return list(array.to_pylist())
    texts = plain_texts(array, "+00:00")
    if is_.is_timestamp(array.type):
        texts = pc.replace_substring(texts, " ", "T", max_replacements=1)
    return list(texts.to_pylist())


def _has_nanoseconds(array: pa.Array) -> pa.Array:
    numbers = array.view(pa.int64())
    return pc.not_equal(pc.multiply(pc.divide(numbers, 1000), 1000), numbers)


def _names(array: pa.Array) -> list[str]:
    """Return the keys of maps, as JSON strings."""
    return [text if text.startswith('"') else _text(text) for text in _json(array)]


def _object(names: Sequence[str], values: Sequence[str]) -> str:
    if len(set(names)) < len(names):
        raise ValueError("a map has a key twice")
    return f"{{{', '.join(map(': '.join, zip(names, values, strict=True)))}}}"


def _scalar(value: Any) -> str:
    if isinstance(value, bool | int):
        return json.dumps(value)
    if isinstance(value, float):
        # JSON does not support NaN and infinity.
        return str(value) if abs(value) < float("inf") else _text(json.dumps(value))
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, bytes):
        return _text(f"\\x{value.hex()}")
    return _text(value.isoformat() if hasattr(value, "isoformat") else str(value))


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)
