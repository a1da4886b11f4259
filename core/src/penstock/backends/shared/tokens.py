"""Logins by tokens that are fetched for each session, instead of by a password in the URL."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from penstock.errors import PermanentError, TransientError

MARK = "penstock-token:"
"""Precedes the abstract name of a socket, which gives a token, in place of a URL's password."""
GIVEN, FAILED, FAILED_NOW = b"+", b"-", b"~"
"""Precede an answer: a text, and the message of an error that stays or that may pass."""
WAIT_SECONDS = 60.0


@runtime_checkable
class TakesTokens(Protocol):
    """A backend whose sessions call `current_password` as they connect."""

    private_parameter: str
    """The parameter of a URL that has sessions encrypted and the server verified."""

    def is_private(self, url: str, environ: Mapping[str, str]) -> bool:
        """Whether all sessions of a resolved URL are encrypted, or stay on this machine."""
        ...


def is_this_machine(host: str) -> bool:
    """Whether a host is this machine: by name, by a loopback address, or by a socket's path."""
    return host in ("localhost", "::1") or host.startswith(("127.", "/", "@"))


def current_password(password: str, side: str) -> str:
    """Return a token in place of a mark; return a password unchanged.

    The process that resolved the URL gives it: neither a worker's spec, arguments nor environment
    contain a token.

    Args:
        password: the password of a resolved URL.
        side: `source` or `target`, for error messages.

    Raises:
        PermanentError: the token cannot be fetched.
        TransientError: it cannot be fetched now.
    """
    if not password.startswith(MARK):
        return password
    return ask(password.removeprefix(MARK), side, "the process that fetches tokens")


def ask(name: str, side: str, who: str) -> str:
    """Return what the process that resolved the URL gives on a socket.

    Args:
        name: the abstract name of the socket.
        side: `source` or `target`, for error messages.
        who: that process, for error messages.

    Raises:
        PermanentError: it has nothing to give.
        TransientError: it has nothing to give now, or does not answer.
    """
    try:
        with socket.socket(socket.AF_UNIX) as asked:
            asked.settimeout(WAIT_SECONDS)
            asked.connect(f"\0{name}")
            answer = b"".join(iter(lambda: asked.recv(1 << 16), b""))
    except OSError as error:
        raise TransientError(f"{side}: {who} does not answer: {error.strerror or error}") from None
    kind, text = answer[:1], answer[1:].decode()
    if kind == GIVEN:
        return text
    raise (PermanentError if kind == FAILED else TransientError)(f"{side}: {text}")
