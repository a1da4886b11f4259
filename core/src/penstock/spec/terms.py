"""The terms of messages: options as on the command line, or as arguments in Python."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from penstock.errors import PenstockError
from penstock.spec.arguments import as_arguments

_flags: list[bool] = []


@contextmanager
def flags() -> Iterator[None]:
    """Name options as flags in messages, for users of a command line: ``--mode``, not ``mode``."""
    _flags.append(True)
    try:
        yield
    finally:
        _flags.pop()


def in_callers_terms(error: PenstockError, subject: str | None = None) -> None:
    """Make an error that leaves Penstock name options as its caller does.

    Args:
        error: the error, changed in place.
        subject: the table or asset, for callers with many of them.
    """
    if _flags:
        return
    message = as_arguments(error.message)
    if subject and subject not in message:
        message = f"{subject}: {message}"
    error.message, error.args = message, (message,)
