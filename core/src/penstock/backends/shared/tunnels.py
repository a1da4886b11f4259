"""Sessions through an ssh tunnel, which the process that resolved the URL holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Protocol, runtime_checkable

from penstock.backends.shared.tokens import ask
from penstock.errors import PenstockError

MARK = "penstock-tunnel:"
"""In a resolved URL, precedes the abstract names of two sockets, divided by a comma.

One gives a tunnel's entrance, the other what ssh has just said about a session.
"""
_HOLDER = "the process that holds the tunnel"


@runtime_checkable
class TakesTunnels(Protocol):
    """A backend whose sessions call `entrance` as they connect."""

    def through(
        self, url: str, environ: Mapping[str, str], tunnel: Callable[[str, int], str], flag: str
    ) -> str:
        """Return a resolved URL whose sessions go through a tunnel.

        They verify the server by the host of the URL, as without a tunnel.

        Args:
            url: the resolved URL.
            environ: the environment.
            tunnel: returns a mark for the tunnel to a host, as the other end knows it, and a port.
            flag: the option, for messages.

        Raises:
            UsageError: the URL does not name one host.
        """
        ...


def entrance(mark: str, side: str) -> tuple[str, int]:
    """Return the address and the port of this machine where a tunnel begins.

    Args:
        mark: the mark in a resolved URL.
        side: `source` or `target`, for error messages.

    Raises:
        PermanentError: it cannot be opened.
        TransientError: it is not open at the moment.
    """
    name, _, _ = mark.removeprefix(MARK).partition(",")
    address, _, port = ask(name, side, _HOLDER).rpartition(":")
    return address, int(port)


def explained(error: PenstockError, mark: str, side: str) -> PenstockError:
    """Return an error of connecting with what ssh has said about it, if the URL has a tunnel.

    To a driver, a server that the other end cannot reach is one that hangs up.

    Args:
        error: the error.
        mark: the mark in a resolved URL; any other text if it has none.
        side: `source` or `target`, for error messages.
    """
    if not mark.startswith(MARK):
        return error
    with suppress(PenstockError):
        if said := ask(mark.partition(",")[2], side, _HOLDER):
            return type(error)(f"{error.message}; {said}", error.diagnosis)
    return error
