"""Rows that compare equal regardless of the driver that read them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID


def plain(row: Iterable[Any]) -> tuple[Any, ...]:
    """Return values that compare equal regardless of the driver that read them."""
    return tuple(_plain(value) for value in row)


def _plain(value: Any) -> Any:
    match value:
        case bool() | None:
            return value
        case float():
            return "NaN" if math.isnan(value) else repr(value)
        case int() | Decimal():
            # This drops the sign of zero, too.
            return f"{Decimal(value).normalize():f}" if value else "0"
        case UUID():
            return str(value)
        case memoryview() | bytearray():
            return bytes(value)
        case datetime():
            return value.astimezone(UTC).isoformat() if value.tzinfo else value.isoformat()
        case list() | tuple():
            return [_plain(item) for item in value]
        case dict():
            return json.dumps(value, sort_keys=True, default=str)
        case _:
            return value
