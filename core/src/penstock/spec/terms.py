"""Whether messages name options as the command line writes them, or as arguments in Python."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from penstock.errors import PenstockError

_flags: list[bool] = []


@contextmanager
def flags() -> Iterator[None]:
    """Meanwhile somebody at a command line reads the messages: ``--mode``, and not ``mode``."""
    _flags.append(True)
    try:
        yield
    finally:
        _flags.pop()


def in_callers_terms(error: PenstockError, subject: str | None = None) -> None:
    """Have an error that leaves Penstock name options as its caller does.

    Parameters:
        subject: what the options are of, where a caller may have many.
    """
    if _flags:
        return
    from penstock.spec.arguments import as_arguments  # noqa: PLC0415 - it needs `CopySpec`

    message = as_arguments(error.message)
    if subject and subject not in message:
        message = f"{subject}: {message}"
    error.message, error.args = message, (message,)
