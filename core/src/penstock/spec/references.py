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


_VARIABLE = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]*")


# Two slashes begin the URL of files: file:///lake/orders/. A password (:...@) or a parameter
# belongs to a malformed URL, which must not be shown as the path of a file.
_FILE = re.compile(r"file:/(?!/)(?!.*:.*@|.*\?)", re.DOTALL)


# A URL is short; a large file is something else, such as data.
_MAX_FILE = 64 * 1024


_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*", re.IGNORECASE)


_PLAIN_NAME = re.compile(r"[a-z_]+")


_SECRET_NAME = re.compile(r"pass|secret|token|credential|key|auth", re.IGNORECASE)


def redact(url: str) -> str:
    """Return a URL that is safe to show: without its password and without secret parameters.

    References (``env:NAME``, ``file:/PATH``) and paths are shown as they are.
    """
    if _VARIABLE.fullmatch(url) or _FILE.match(url) or _PATH.match(url):
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


def is_reference(connection: str) -> bool:
    """Whether a connection only says where its URL is: ``env:NAME`` or ``file:/PATH``."""
    return connection.startswith("env:") or _FILE.match(connection) is not None


def _path_url(path: str) -> str:
    """Return a path as a `file://` URL; return a URL unchanged."""
    if not _PATH.match(path):
        return path
    return "file://" + quote(os.path.abspath(path) + "/" * path.endswith("/"), "/*?[]=&")


def resolve_reference(reference: str, environ: Mapping[str, str], flag: str) -> str:
    """Return the URL that a reference stands for.

    Args:
        reference: a URL, a path, ``env:NAME`` or ``file:/PATH``.
        environ: the environment.
        flag: the option, for the message.

    Raises:
        UsageError: ``env:NAME`` names a variable that is not set, the file of ``file:/PATH``
            cannot be read or holds no URL, or the URL has no scheme.
    """
    url = reference
    if _PATH.match(reference):
        return ",".join(map(_path_url, _NEXT_PATH.split(reference)))
    if reference.startswith("env:"):
        if not _VARIABLE.fullmatch(reference):
            raise UsageError(f"{flag}: expected env:NAME with the name of an environment variable")
        name = reference.removeprefix("env:")
        if not environ.get(name):
            raise UsageError(f"{flag}: environment variable {name!r} is not set")
        url = environ[name]
    elif _FILE.match(reference):
        url = _read_url(reference.removeprefix("file:"), flag)
    if not _SCHEME.fullmatch(url.partition("://")[0]) or "://" not in url:
        raise UsageError(
            f"{flag}: expected a URL such as scheme://user@host/database, a path that starts "
            "with /, ./ or ../, env:NAME, or file:/PATH with the absolute path of a file that "
            "holds the URL; found a string without a scheme"
        )
    return url


def _read_url(path: str, flag: str) -> str:
    """Return the URL in a file, without the line's end.

    Raises:
        UsageError: the file cannot be read, or does not hold one line. The message does not show
            what it holds.
    """
    expected = f"{flag}: {path}: expected a file that holds a URL"
    try:
        # Opening a pipe could wait for ever, and only one of several readers would have the URL.
        if os.path.exists(path) and not os.path.isfile(path):
            raise UsageError(f"{expected}, found a folder or a device")
        with open(path, "rb") as file:
            content = file.read(_MAX_FILE + 1)
    except OSError as error:
        raise UsageError(f"{expected}: {error.strerror}") from None
    except ValueError:
        raise UsageError(
            f"{flag}: expected file:/PATH, found a path that no file can have"
        ) from None
    try:
        url = content.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise UsageError(f"{expected}, found bytes that are not UTF-8") from None
    if not url:
        raise UsageError(f"{expected}, found an empty one")
    if len(content) > _MAX_FILE or len(url.splitlines()) > 1:
        raise UsageError(f"{expected}, found more than one line")
    if not _SCHEME.fullmatch(url.partition("://")[0]) or "://" not in url:
        raise UsageError(f"{expected}, found a text without a scheme")
    return url
