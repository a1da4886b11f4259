"""``mysql://user:password@host:port/database?parameter=value``; ``mariadb://`` is the same.

Option files (https://dev.mysql.com/doc/refman/8.4/en/option-files.html) are read as the clients'
own libraries read them.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from penstock.backends.shared.server_url import Location, ServerUrls
from penstock.backends.shared.tokens import is_this_machine
from penstock.errors import UsageError

SSL_MODES = ("disabled", "preferred", "required", "verify_ca", "verify_identity")
_SSL_FILES = ("ssl_ca", "ssl_cert", "ssl_key")
_OPTION_FILE = "read_default_file"
# The groups that the client libraries of MySQL and MariaDB read.
_GROUPS = ("client", "client-server", "client-mariadb")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "s": " ", '"': '"', "'": "'", "\\": "\\"}
_MAX_DEPTH = 10
TUNNEL = "ssh"
"""In a resolved URL, the parameter with the mark of a tunnel."""
_OFF = ("0", "off", "false")


class MysqlUrls(ServerUrls):
    """URLs that may name an option file, whose login the resolved URL contains."""

    __slots__ = ()

    def resolve(self, url: str, environ: Mapping[str, str], flag: str) -> str:
        location = self.parse(url, flag)
        named = location.options.get(_OPTION_FILE)
        if named and environ:
            home = environ.get("HOME", "~")
            path = re.sub(r"^~(?=/)", lambda _: home, named)
            url = self._with_options(url, location, _read_options(path, flag), flag)
        return super().resolve(url, environ, flag)

    def _with_options(
        self, url: str, location: Location, found: Mapping[str, str], flag: str
    ) -> str:
        """Return a URL with the options of a file, which what it says itself overrides."""
        written = urlsplit(url)
        host = written.hostname or found.get("host") or "localhost"
        options = {name: v for name, v in location.options.items() if name != _OPTION_FILE}
        added = {name: found[name] for name in (*_SSL_FILES, "connect_timeout") if name in found}
        if mode := _ssl_mode(found):
            added["ssl_mode"] = mode
        # As in the clients: a socket is for this machine.
        if host.lower() == "localhost" and found.get("socket"):
            added["unix_socket"] = found["socket"]
        user = location.user or found.get("user", "")
        password = location.password or found.get("password", "")
        port = str(written.port or found.get("port") or location.port)
        database = location.database or found.get("database", "")
        merged = {**added, **options}
        filled = (
            f"{self.scheme}://{quote(user, safe='')}:{quote(password, safe='')}@"
            f"{f'[{host}]' if ':' in host else quote(host, safe='')}:{port}"
            f"/{quote(database, safe='')}{f'?{urlencode(merged)}' if merged else ''}"
        )
        try:
            self.parse(filled, flag)
        except UsageError:
            raise UsageError(
                f"{flag}: {location.options[_OPTION_FILE]}: expected options for a connection, "
                "found a host, port, ssl-mode or connect-timeout that cannot be used"
            ) from None
        return filled


def _ssl_mode(found: Mapping[str, str]) -> str | None:
    """Return the mode that options of either system's client stand for."""
    if "ssl_mode" in found:
        return found["ssl_mode"].lower()
    if found.get("ssl", "").lower() in _OFF or {"skip_ssl", "disable_ssl"} & found.keys():
        return "disabled"
    if found.get("ssl_verify_server_cert", "0").lower() not in _OFF:
        return "verify_identity"
    return "required" if "ssl" in found and "ssl_ca" not in found else None


def _read_options(path: str, flag: str) -> dict[str, str]:
    """Return the options of a file, by their names with ``_``.

    Raises:
        UsageError: the file cannot be read, or everyone may write to it.
    """
    options: dict[str, str] = {}
    for group, name, value in _options_of(path, flag, 0):
        if group in _GROUPS:
            options[name.replace("-", "_").removeprefix("loose_")] = value
    return options


def _options_of(path: str, flag: str, depth: int) -> Iterator[tuple[str, str, str]]:
    """Yield the group, the name and the value of each option, in the order of the file."""
    expected = f"{flag}: {path}: expected an option file"
    if depth > _MAX_DEPTH:
        raise UsageError(f"{expected}, found one that includes itself")
    try:
        with open(path, encoding="utf-8") as file:
            # The clients leave such a file out, with a warning.
            if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & stat.S_IWOTH:
                raise UsageError(f"{expected}, found one that everyone may write to: chmod o-w it")
            lines = file.read().splitlines()
    except OSError as error:
        raise UsageError(f"{expected}: {error.strerror}") from None
    except ValueError:
        raise UsageError(f"{expected} in UTF-8") from None
    group = ""
    for line in map(str.strip, lines):
        if match := re.match(r"!(include|includedir)\s+(.+)", line):
            for included in _included(match[1], match[2], expected):
                yield from _options_of(included, flag, depth + 1)
        elif match := re.match(r"\[(.*?)\]", line):
            group = match[1].rstrip()
        elif line and line[0] not in "#;!":
            name, _, value = _without_comment(line).partition("=")
            yield group, name.strip(), _unquoted(value.strip())


def _included(kind: str, path: str, expected: str) -> list[str]:
    if kind == "include":
        return [path]
    try:
        names = sorted(name for name in os.listdir(path) if name.endswith(".cnf"))
    except OSError as error:
        raise UsageError(f"{expected}, found one that includes {path}: {error.strerror}") from None
    return [os.path.join(path, name) for name in names]


def _without_comment(line: str) -> str:
    quoted, escaped = "", False
    for at, character in enumerate(line):
        if character in "'\"" and not escaped and quoted in ("", character):
            quoted = "" if quoted else character
        if character == "#" and not quoted:
            return line[:at]
        escaped = bool(quoted) and character == "\\" and not escaped
    return line


def _unquoted(value: str) -> str:
    if len(value) > 1 and value[0] in "'\"" and value[-1] == value[0]:
        value = value[1:-1]
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[0]), value)


URLS = MysqlUrls(
    scheme="mysql",
    port=3306,
    user="root",
    password_variable="MYSQL_PWD",
    choices={
        "ssl_mode": SSL_MODES,
        "tinyint1": ("int", "bool"),
        "zero_dates": ("error", "null"),
    },
    numbers=("connect_timeout", "snapshot_sessions"),
    texts=(*_SSL_FILES, "unix_socket", _OPTION_FILE, TUNNEL),
    schemas_are_databases=True,
)


def tls_options(location: Location) -> dict[str, Any]:
    """Return PyMySQL's TLS options.

    Without a mode, TLS is used if the server offers it.
    """
    options = location.options
    files = {name.removeprefix("ssl_"): options[name] for name in options if name in _SSL_FILES}
    mode = options.get("ssl_mode", "verify_ca" if "ca" in files else "preferred")
    if mode == "disabled":
        return {"ssl_disabled": True}
    if mode == "preferred" and not files:
        return {}
    verified = mode.startswith("verify")
    check_hostname = mode == "verify_identity"
    return {"ssl": {**files, "verify_mode": verified, "check_hostname": check_hostname}}


def is_private(url: str) -> bool:
    """Whether all sessions of a URL are encrypted, or stay on this machine."""
    location = URLS.parse(url)
    if "unix_socket" in location.options or is_this_machine(location.host):
        return True
    return "ssl" in tls_options(location)


def through(url: str, tunnel: Callable[[str, int], str], flag: str) -> str:
    """See `TakesTunnels`."""
    location = URLS.parse(url, flag)
    if "unix_socket" in location.options:
        raise UsageError(f"{flag}: ssh: expected a host, found unix_socket")
    mark = quote(tunnel(location.host, location.port), safe="")
    return f"{url}{'&' if '?' in url else '?'}{TUNNEL}={mark}"
