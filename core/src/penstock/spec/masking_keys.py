"""Keys of masks: read from the environment, and identified by a proof.

Sessions receive them in a form from which they compute an HMAC (RFC 2104) with a plain SHA-256.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable

from penstock.errors import PlanningError, UsageError
from penstock.model.tables import ColumnPair, MaskingKey

_BLOCK = 64
_FIXED = b"penstock masking key"
_INNER, _OUTER = 0x36, 0x5C


def read_key(variable: str) -> MaskingKey:
    """Read a key from an environment variable, and return a reference to it.

    Raises:
        UsageError: the variable is not set.
    """
    return MaskingKey(variable, _proof(_key(variable)))


def session_values(pairs: Iterable[ColumnPair]) -> dict[str, str]:
    """Return the values that a session needs before it computes the expressions. Secret.

    They are named by `inner` and `outer`; each is a block of bytes in hexadecimal digits.

    Raises:
        UsageError: a variable is not set.
        PlanningError: a variable holds a different key from the one the run was planned with.
    """
    keys: dict[str, str] = {}
    for planned in {pair.key for pair in pairs if pair.key is not None}:
        key = _key(planned.variable)
        if _proof(key) != planned.proof:
            raise PlanningError(
                f"--mask: the key in environment variable {planned.variable!r} is not the one "
                "that the run was planned with; set that key, or start a new run"
            )
        block = (hashlib.sha256(key).digest() if len(key) > _BLOCK else key).ljust(_BLOCK, b"\0")
        keys[inner(planned)] = bytes(byte ^ _INNER for byte in block).hex()
        keys[outer(planned)] = bytes(byte ^ _OUTER for byte in block).hex()
    return keys


def inner(key: MaskingKey) -> str:
    """Return the name of the block that is put before a value, to be hashed with it."""
    return f"mask_{key.proof}_inner"


def outer(key: MaskingKey) -> str:
    """Return the name of the block that is put before that hash, to be hashed with it."""
    return f"mask_{key.proof}_outer"


def _key(variable: str) -> bytes:
    key = os.environ.get(variable)
    if not key:
        raise UsageError(f"--mask: environment variable {variable!r} is not set")
    return key.encode("utf-8", "surrogateescape")


def _proof(key: bytes) -> str:
    import hmac  # noqa: PLC0415 - few runs have such a mask

    return hmac.new(key, _FIXED, hashlib.sha256).hexdigest()[:16]
