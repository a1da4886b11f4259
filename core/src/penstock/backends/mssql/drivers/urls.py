"""URLs of either scheme, and where they lead."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.backends.mssql.drivers.odbc_location import ODBC_URLS
from penstock.backends.mssql.location import URLS
from penstock.backends.shared.server_url import ServerUrls
from penstock.model.tables import Place


def urls_of(url: str) -> ServerUrls:
    """Those of a URL's scheme."""
    return ODBC_URLS if url.lower().startswith(f"{ODBC_URLS.scheme}:") else URLS


class AnyUrls:
    """Those of either scheme; see `Urls`."""

    def resolve(self, url: str, environ: Mapping[str, str], flag: str) -> str:
        return urls_of(url).resolve(url, environ, flag)

    def secrets(self, url: str) -> tuple[str, ...]:
        return urls_of(url).secrets(url)

    def place(self, url: str) -> Place:
        return urls_of(url).place(url)


def server_of_url(url: str) -> str:
    """Where a URL leads, for errors."""
    found = urls_of(url).parse(url)
    return found.options.get("dsn") or f"{found.host}:{found.port}"
