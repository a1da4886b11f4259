"""Arrow arrays as JSON."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa


def json_texts(array: pa.Array) -> pa.Array:
    """Return the values of an array as JSON; NULL for NULL.

    Args:
        array: lists, structs or maps; a map becomes an object.
    """
    return pa.array(
        [
            None if value is None else _json_text(value)
            for value in array.to_pylist(maps_as_pydicts="strict")
        ],
        pa.large_string(),
    )


def _json_text(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_json_text, value))}]"
    if isinstance(value, dict):
        return (
            f"{{{', '.join(f'{_text(key)}: {_json_text(part)}' for key, part in value.items())}}}"
        )
    if value is None or isinstance(value, bool | int):
        return json.dumps(value)
    if isinstance(value, float) and not math.isfinite(value):
        # JSON does not support such numbers.
        return _text(json.dumps(value))
    if isinstance(value, float | Decimal):
        return str(value)
    if isinstance(value, bytes):
        return _text(f"\\x{value.hex()}")
    return _text(value.isoformat() if hasattr(value, "isoformat") else str(value))


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)
