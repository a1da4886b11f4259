"""Functions in Python that the database calls for checksums its SQL cannot compute.

The types page defines canonical texts.
"""

from __future__ import annotations

import hashlib
import struct
from datetime import date
from typing import Any

_EPOCH = date(1970, 1, 1)


def canonical_text(value: Any, kind: str) -> str | None:
    """Return the canonical text of a value.

    Args:
        value: a number, a text, bytes, or a date as text.
        kind: as in `ColumnPair.canonical`.
    """
    match kind:
        case _ if value is None:
            return None
        case "float":
            return f"{int.from_bytes(struct.pack('>d', value)):064b}"
        case "bytes":
            return bytes(value).hex()
        case "date":
            return str((date.fromisoformat(value) - _EPOCH).days)
        case _:
            return str(value)


def digest(text: str | None) -> int | None:
    """See `CatalogDialect.digest`."""
    return None if text is None else int(hashlib.sha256(text.encode()).hexdigest()[:15], 16)


class Total:
    """An aggregate: the sum of whole numbers of any size, as text."""

    def __init__(self) -> None:
        self._sum = 0

    def step(self, number: int) -> None:
        self._sum += number

    def finalize(self) -> str:
        return str(self._sum)


FUNCTIONS = (("penstock_canonical", 2, canonical_text), ("penstock_digest", 1, digest))
"""Their names in statements, and their numbers of arguments. `Total` is `penstock_total`."""
