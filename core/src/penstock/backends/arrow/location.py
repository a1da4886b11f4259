"""URLs of rows of a Python process: ``arrow+unix://`` and the path of a socket."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

from penstock.errors import UsageError

SCHEME = "arrow+unix://"


def socket_of(url: str) -> str:
    """Return the path of the socket that serves the rows."""
    return unquote(url.removeprefix(SCHEME))


def checked(url: str, flag: str) -> str:
    """Return a URL of rows that are served.

    Args:
        url: the URL.
        flag: the option that it comes from, for error messages.

    Raises:
        UsageError: no process serves rows there.
    """
    if not Path(socket_of(url)).is_socket():
        raise UsageError(
            f"{flag}: {SCHEME} stands for rows of a Python process that is running; expected "
            "ArrowRows of a table or stream, in Python; found none there"
        )
    return url
