"""The fields of a connection stored by an orchestrator, from which a backend builds its URL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode


@dataclass(frozen=True, slots=True)
class ConnectionFields:
    """Fields as the user filled them in; empty if missing.

    The `repr` omits the password and the extra fields, which may hold secrets.
    """

    kind: str
    """The connection's type, in lower case: a name in the entry point group
    ``penstock.connections``.
    """
    host: str = ""
    port: str = ""
    login: str = ""
    password: str = field(default="", repr=False)
    schema: str = ""
    """The database, in most systems."""
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def extra_texts(self, without: frozenset[str] = frozenset()) -> dict[str, str]:
        """Return the extra fields that are filled in, as URL parameters.

        Args:
            without: the names to leave out.
        """
        return {
            name: str(value)
            for name, value in self.extra.items()
            if name not in without and value not in (None, "")
        }

    def url(
        self,
        scheme: str,
        parameters: Mapping[str, str],
        *,
        host: str | None = None,
        port: str | None = None,
        path: str | None = None,
    ) -> str:
        """Return a URL with this login and password, percent-encoded as in RFC 3986.

        Args:
            scheme: the scheme of the URL.
            parameters: the parameters of the URL's query.
            host: replaces the field `host`.
            port: replaces the field `port`.
            path: replaces the field `schema`.
        """
        host = self.host if host is None else host
        port = self.port if port is None else port
        user = quote(self.login, safe="")
        if self.password:
            user += f":{quote(self.password, safe='')}"
        place = f"[{host}]" if ":" in host else quote(host, safe="")
        place += f":{port}" if port else ""
        quoted_path = quote(self.schema if path is None else path, safe="")
        query = f"?{urlencode(parameters, quote_via=quote)}" if parameters else ""
        return f"{scheme}://{user}{'@' if user else ''}{place}/{quoted_path}{query}"


def is_on(value: Any) -> bool:
    """Whether an extra field is on, as a checkbox or as text."""
    return str(value).lower() in ("true", "1", "yes")
