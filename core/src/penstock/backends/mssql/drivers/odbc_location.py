"""URLs of any ODBC driver: ``mssql+pyodbc://`` with ``driver`` or ``dsn`` among the parameters."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from penstock.backends.mssql.location import KEYWORDS, URLS, braced, login
from penstock.backends.shared.server_url import ServerUrls
from penstock.errors import UsageError
from penstock.model.tables import Place


class OdbcUrls(ServerUrls):
    """The URLs of any ODBC driver, named directly or by a data source."""

    def resolve(self, url: str, environ: Mapping[str, str], flag: str) -> str:
        options = self.parse(url, flag).options
        if ("dsn" in options) == ("driver" in options):
            raise UsageError(
                f"{flag}: expected either ?driver=NAME, as in odbcinst.ini, or ?dsn=NAME, as in "
                f"odbc.ini; found {'both' if 'dsn' in options else 'neither'}"
            )
        if "dsn" in options and urlsplit(url).hostname:
            raise UsageError(
                f"{flag}: expected the host in the data source alone, found one in the URL; "
                "remove it from the URL"
            )
        return ServerUrls.resolve(self, url, environ, flag)

    def place(self, url: str) -> Place:
        location = self.parse(url)
        if dsn := location.options.get("dsn"):
            return Place(URLS.scheme, dsn, None, location.database)
        # Whatever the driver, it is the same database.
        return Place(URLS.scheme, location.host, location.port, location.database)


ODBC_URLS = OdbcUrls(
    scheme="mssql+pyodbc",
    port=URLS.port,
    user=URLS.user,
    password_variable=URLS.password_variable,
    choices=URLS.choices,
    numbers=URLS.numbers,
    texts=(*URLS.texts, "driver", "dsn"),
)


# FreeTDS ignores keywords that it does not support.
_FREETDS = {
    "trusted_connection": ("Trusted_Connection", {}),
    "application_intent": ("ApplicationIntent", {}),
    "server_spn": ("ServerSPN", {}),
    "packet_size": ("PacketSize", {}),
    "encrypt": ("Encryption", {"yes": "require", "no": "off"}),
}
_OURS = ("driver", "dsn", "connect_timeout")


def odbc_string(url: str, driver: str) -> str:
    """Return the connection string for an ODBC driver.

    Args:
        url: the target's or source's URL.
        driver: the driver's name, even if the URL names a data source.

    Raises:
        UsageError: the URL is malformed, or has a setting that the driver does not support.
    """
    location = ODBC_URLS.parse(url)
    options = {name: value for name, value in location.options.items() if name not in _OURS}
    authentication = login(location)
    freetds = "tds" in driver.lower()
    if freetds:
        settings = {}
        for name, value in options.items():
            keyword, words = _FREETDS.get(name, ("", {}))
            if not keyword or (words and value not in words):
                raise UsageError(
                    f"connection: FreeTDS does not support {name}={value}; remove it from the URL"
                )
            settings[keyword] = words.get(value, value)
        if any("};" in value for value in authentication.values()):
            raise UsageError(
                "connection: FreeTDS does not support a user, password or database that contains "
                "'};'; use mssql:// or Microsoft's ODBC driver"
            )
    else:
        keywords = {**KEYWORDS, "packet_size": "PacketSize"}
        settings = {keywords[name]: value for name, value in options.items()}
    if "dsn" in location.options:
        place = f"DSN={location.options['dsn']};"
    else:
        # FreeTDS passes on everything after the name.
        server = (
            f"{location.host};Port={location.port}"
            if freetds
            else f"tcp:{location.host},{location.port}"
        )
        place = f"DRIVER={{{location.options['driver']}}};Server={server};"
    # FreeTDS does not support doubled braces.
    parts = (
        f"{name}={f'{{{value}}}' if freetds else braced(value)};"
        for name, value in (authentication | settings).items()
    )
    return place + "".join(parts)
