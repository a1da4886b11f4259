"""URLs: checked without connecting, their secrets, and where they lead.

``mysql://user:password@host:port/database?parameter=value``; ``mariadb://`` is the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit

from penstock.errors import UsageError
from penstock.model.tables import Place

SCHEME = "mysql"
DEFAULT_PORT = 3306
MAX_PORT = 65535
SSL_MODES = ("disabled", "preferred", "required", "verify_ca", "verify_identity")
_FORM = "mysql://user:password@host:port/database"
_ESCAPES = "write %2F, %40, %3A, %23, %3F, %25 or %5B for / @ : # ? % [ in a password"
_CHOICES: Mapping[str, tuple[str, ...]] = {
    "ssl_mode": SSL_MODES,
    "tinyint1": ("int", "bool"),
    "zero_dates": ("error", "null"),
}
_NUMBERS = ("connect_timeout", "snapshot_sessions")
_SSL_FILES = ("ssl_ca", "ssl_cert", "ssl_key")
_TEXTS = (*_SSL_FILES, "unix_socket")
_PARAMETERS = (*_CHOICES, *_NUMBERS, *_TEXTS)


@dataclass(frozen=True, slots=True)
class Location:
    """What a URL says. The password is in no `repr`."""

    host: str
    port: int
    user: str
    password: str = field(repr=False)
    database: str
    options: Mapping[str, str]


def parse(url: str, flag: str = "connection") -> Location:
    """
    Raises:
        UsageError: malformed. Nothing of the URL is shown: any part may be one of a password.
    """

    def malformed(found: str) -> UsageError:
        return UsageError(f"{flag}: malformed URL: expected {_FORM}, found {found}")

    if re.search(r"^[^/]*//[^/?]*/[^?]*@", url) or url.count("@") > 1:
        raise malformed(f"an unescaped '/' or '@' before the host; {_ESCAPES}")
    try:
        parts: SplitResult = urlsplit(url)
        port = parts.port
    except ValueError:
        raise malformed(f"a host or port that cannot be read; {_ESCAPES}") from None
    if parts.fragment or "%" in re.sub(r"%[0-9a-fA-F]{2}", "", url):
        raise malformed(f"a # or % that stands for itself; {_ESCAPES}")
    if port is not None and not 0 < port <= MAX_PORT:
        raise malformed(f"a port that is none of 1 to {MAX_PORT}")
    options = _options(parts.query, flag)
    database = unquote(parts.path.removeprefix("/"))
    if "/" in parts.path.removeprefix("/") or "\0" in database:
        raise malformed("a path of several parts as the database")
    return Location(
        unquote(parts.hostname or "localhost").lower(),
        port or DEFAULT_PORT,
        unquote(parts.username or ""),
        unquote(parts.password or ""),
        database,
        options,
    )


def _options(query: str, flag: str) -> dict[str, str]:
    options: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in _PARAMETERS:
            # It may be the rest of a password with an & in it: not shown.
            raise UsageError(
                f"{flag}: expected parameters {', '.join(sorted(_PARAMETERS))}; found another one"
            )
        if name in _CHOICES and value not in _CHOICES[name]:
            raise UsageError(f"{flag}: {name}: expected {' or '.join(_CHOICES[name])}")
        if name in _NUMBERS and not re.fullmatch(r"[1-9][0-9]{0,5}", value):
            raise UsageError(f"{flag}: {name}: expected a whole number from 1")
        options[name] = value
    return options


def resolve(url: str, environ: Mapping[str, str], flag: str) -> str:
    """Check a URL and fold MYSQL_PWD into it, so that no child needs it in its environment.

    Raises:
        UsageError: see `parse`.
    """
    found = parse(url, flag)
    password = found.password or environ.get("MYSQL_PWD", "")
    user = found.user or environ.get("USER", "root")
    host = f"[{found.host}]" if ":" in found.host else found.host
    query = f"?{urlencode(found.options)}" if found.options else ""
    return (
        f"{SCHEME}://{quote(user, safe='')}:{quote(password, safe='')}@{host}:{found.port}"
        f"/{quote(found.database, safe='')}{query}"
    )


def secrets(url: str) -> tuple[str, ...]:
    """As they may be shown: as they are, and as the URL has them."""
    password = parse(url).password
    return tuple({password, quote(password, safe="")} - {""})


def place_of(url: str) -> Place:
    """
    Raises:
        UsageError: malformed.
    """
    found = parse(url)
    return Place(SCHEME, found.host, found.port, found.database)


def tls_options(found: Location) -> dict[str, Any]:
    """What PyMySQL is told of TLS; without a mode it is used where the server offers it."""
    options = found.options
    files = {name.removeprefix("ssl_"): options[name] for name in options if name in _SSL_FILES}
    mode = options.get("ssl_mode", "verify_ca" if "ca" in files else "preferred")
    if mode == "disabled":
        return {"ssl_disabled": True}
    if mode == "preferred" and not files:
        return {}
    verified = mode.startswith("verify")
    named = mode == "verify_identity"
    return {"ssl": {**files, "verify_mode": verified, "check_hostname": named}}
