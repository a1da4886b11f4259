"""URLs of either scheme, and what they refer to."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.backends.mssql.drivers.odbc_location import ODBC_URLS
from penstock.backends.mssql.location import URLS
from penstock.backends.shared.server_url import ServerUrls
from penstock.model.tables import Place


def urls_of(url: str) -> ServerUrls:
    """Return the URLs of a URL's scheme."""
    return ODBC_URLS if url.lower().startswith(f"{ODBC_URLS.scheme}:") else URLS


class AnyUrls:
    """The URLs of either scheme; see `Urls`."""

    def resolve(self, url: str, environ: Mapping[str, str], flag: str) -> str:
        return urls_of(url).resolve(url, environ, flag)

    def secrets(self, url: str) -> tuple[str, ...]:
        return urls_of(url).secrets(url)

    def place(self, url: str) -> Place:
        return urls_of(url).place(url)


def server_of_url(url: str) -> str:
    """Return the server that a URL refers to, for error messages."""
    location = urls_of(url).parse(url)
    return location.options.get("dsn") or f"{location.host}:{location.port}"
