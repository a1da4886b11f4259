"""Connections by URL, path or reference, and their display without secrets."""

from __future__ import annotations

import os.path
import re
from collections.abc import Mapping
from urllib.parse import parse_qsl, quote, urlsplit

from penstock.errors import UsageError

# Two slashes do not start a path; they start a URL that lost its scheme.
_PATH = re.compile(r"\.{0,2}/(?!/)")


# A comma followed by another path or URL separates the items of a list.
_NEXT_PATH = re.compile(r",(?=\.{0,2}/(?!/)|[A-Za-z][A-Za-z0-9+.-]*://)")


_REFERENCE = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]*")


_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*", re.IGNORECASE)


_PLAIN_NAME = re.compile(r"[a-z_]+")


_SECRET_NAME = re.compile(r"pass|secret|token|credential|key|auth", re.IGNORECASE)


def redact(url: str) -> str:
    """Return a URL that is safe to show: without its password and without secret parameters.

    References (``env:NAME``) and paths are shown as they are.
    """
    if _REFERENCE.fullmatch(url) or _PATH.match(url):
        return url
    scheme, separator, _ = url.partition("://")
    if not separator or not _SCHEME.fullmatch(scheme):
        return "***"
    try:
        # A plain text: the library's cache would keep the rows of `ArrowRows`.
        parts = urlsplit(str(url))
        username = parts.username
    except ValueError:
        return f"{scheme}://***"
    if any("@" in part for part in (parts.path, parts.query, parts.fragment)):
        # A password with an unescaped /, ? or # ended the host part early: any part of the rest
        # may be secret.
        return f"{scheme}://***"
    host = parts.netloc.rpartition("@")[2]
    shown = [
        # A value with a ? contains the parameters of the next URL in a list.
        f"{name}={'***' if _SECRET_NAME.search(name) or '?' in value else quote(value, safe='/:,')}"
        # A part without = may be the rest of a password with an unescaped &.
        for name, value in parse_qsl(parts.query, keep_blank_values=True)
        if value or _PLAIN_NAME.fullmatch(name)
    ]
    user = f"{username}@" if username else ""
    return f"{scheme}://{user}{host}{parts.path}" + ("?" + "&".join(shown) if shown else "")


def _path_url(path: str) -> str:
    """Return a path as a `file://` URL; return a URL unchanged."""
    if not _PATH.match(path):
        return path
    return "file://" + quote(os.path.abspath(path) + "/" * path.endswith("/"), "/*?[]=&")


def resolve_reference(reference: str, environ: Mapping[str, str], flag: str) -> str:
    """Return the URL that a reference stands for.

    Args:
        reference: a URL, a path or ``env:NAME``.
        environ: the environment.
        flag: the option, for the message.

    Raises:
        UsageError: ``env:NAME`` names a variable that is not set, or the URL has no scheme.
    """
    url = reference
    if _PATH.match(reference):
        return ",".join(map(_path_url, _NEXT_PATH.split(reference)))
    if reference.startswith("env:"):
        if not _REFERENCE.fullmatch(reference):
            raise UsageError(f"{flag}: expected env:NAME with the name of an environment variable")
        name = reference.removeprefix("env:")
        if not environ.get(name):
            raise UsageError(f"{flag}: environment variable {name!r} is not set")
        url = environ[name]
    if not _SCHEME.fullmatch(url.partition("://")[0]) or "://" not in url:
        raise UsageError(
            f"{flag}: expected a URL such as scheme://user@host/database, a path that starts "
            "with /, ./ or ../, or env:NAME; found a string without a scheme"
        )
    return url
