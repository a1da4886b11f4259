"""URLs of servers: checked without connecting, their secrets, and what they refer to.

``scheme://user:password@host:port/database?parameter=value``, following RFC 3986.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit

from penstock.errors import UsageError
from penstock.model.tables import Place

MAX_PORT = 65535
_ESCAPES = "write %2F, %40, %3A, %23, %3F, %25 or %5B for / @ : # ? % [ in a password"


@dataclass(frozen=True, slots=True)
class Location:
    """The contents of a URL. Its `repr` does not show the password."""

    host: str
    port: int
    user: str
    password: str = field(repr=False)
    database: str
    options: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ServerUrls:
    """The URLs of one system."""

    scheme: str
    port: int
    """The default port."""
    user: str
    """The user if neither the URL nor the environment names one; may be empty."""
    password_variable: str
    """The environment variable with the password for a URL without one."""
    choices: Mapping[str, tuple[str, ...]]
    """Parameters with a fixed set of values."""
    numbers: tuple[str, ...] = ()
    """Parameters that are whole numbers from 1."""
    texts: tuple[str, ...] = ()
    """Other parameters."""
    place_form: str = "host:port/database"
    """The form of the URL after the password; the database may consist of several names, separated
    by `/`.
    """
    schemas_are_databases: bool = False
    """Whether the URL's database is a schema to Penstock."""

    def parse(self, url: str, flag: str = "connection") -> Location:
        """Parse a URL.

        Raises:
            UsageError: the URL is malformed. The message does not show it, since any part may
                belong to a password.
        """

        def malformed(problem: str) -> UsageError:
            form = f"{self.scheme}://user:password@{self.place_form}"
            return UsageError(f"{flag}: malformed URL: expected {form}, found {problem}")

        if re.search(r"^[^/]*//[^/?]*/[^?]*@", url) or url.count("@") > 1:
            raise malformed(f"an unescaped '/' or '@' before the host; {_ESCAPES}")
        try:
            parts: SplitResult = urlsplit(url)
            port = parts.port
        except ValueError:
            raise malformed(f"a host or port that cannot be read; {_ESCAPES}") from None
        if parts.fragment or "%" in re.sub(r"%[0-9a-fA-F]{2}", "", url):
            raise malformed(f"an unescaped # or %; {_ESCAPES}")
        if port is not None and not 0 < port <= MAX_PORT:
            raise malformed(f"a port outside 1 to {MAX_PORT}")
        options = self._options(parts.query, flag)
        database = unquote(parts.path.removeprefix("/"))
        if parts.path.count("/") > self.place_form.count("/") or "\0" in database:
            raise malformed("a path of several parts as the database")
        return Location(
            unquote(parts.hostname or "localhost").lower(),
            port or self.port,
            unquote(parts.username or ""),
            unquote(parts.password or ""),
            database,
            options,
        )

    def _options(self, query: str, flag: str) -> dict[str, str]:
        names = sorted((*self.choices, *self.numbers, *self.texts))
        options: dict[str, str] = {}
        for name, value in parse_qsl(query, keep_blank_values=True):
            if name not in names:
                # It may be the rest of a password that contains an &, so it is not shown.
                raise UsageError(
                    f"{flag}: expected parameters {', '.join(names)}; found another one"
                )
            if name in self.choices and value not in self.choices[name]:
                expected = ", ".join(self.choices[name])
                raise UsageError(f"{flag}: {name}: expected one of {expected}")
            if name in self.numbers and not re.fullmatch(r"[1-9][0-9]{0,5}", value):
                raise UsageError(f"{flag}: {name}: expected a whole number from 1")
            options[name] = value
        return options

    def resolve(self, url: str, environ: Mapping[str, str], flag: str) -> str:
        """Check a URL and add the password from the environment to it.

        No child process then needs it in its environment.

        Args:
            url: the URL, as the user wrote it.
            environ: the environment variables.
            flag: the option with the URL, for messages.

        Raises:
            UsageError: as for `parse`.
        """
        location = self.parse(url, flag)
        password = location.password or environ.get(self.password_variable, "")
        user = location.user or (environ.get("USER", self.user) if self.user else "")
        host = f"[{location.host}]" if ":" in location.host else location.host
        query = f"?{urlencode(location.options)}" if location.options else ""
        database = quote(location.database, safe="/" * (self.place_form.count("/") > 1))
        return (
            f"{self.scheme}://{quote(user, safe='')}:{quote(password, safe='')}@{host}"
            f":{location.port}/{database}{query}"
        )

    def secrets(self, url: str) -> tuple[str, ...]:
        """Return the secrets, both decoded and as written in the URL."""
        password = self.parse(url).password
        return tuple({password, quote(password, safe="")} - {""})

    def place(self, url: str) -> Place:
        """Return the place that a URL refers to.

        Raises:
            UsageError: the URL is malformed.
        """
        location = self.parse(url)
        # Of several names the first is the database: a table is named with its schema.
        return Place(
            self.scheme,
            location.host,
            location.port,
            location.database.partition("/")[0]
            if self.place_form.count("/") > 1
            else location.database,
            schemas_are_databases=self.schemas_are_databases,
        )
