"""Documents as bytes, and back."""

from __future__ import annotations

import json
from typing import Any, TypeVar

from penstock.errors import Diagnosis, PermanentError, Unreadable
from penstock.model.codec import from_json

T = TypeVar("T")


def encode(content: Any) -> bytes:
    """Return a document as human-readable, indented JSON in UTF-8."""
    return json.dumps(content, indent=1, ensure_ascii=False).encode()


def decode(kind: type[T], content: bytes, name: str) -> T:
    """Decode a document.

    Args:
        kind: the class of the document.
        content: the document.
        name: the document's name.

    Raises:
        PermanentError: the document is damaged.
    """
    try:
        return from_json(kind, json.loads(content))
    except (ValueError, Unreadable) as error:
        raise PermanentError(
            f"target: {name} cannot be read: {error}; was it edited?", Diagnosis(side="target")
        ) from error
