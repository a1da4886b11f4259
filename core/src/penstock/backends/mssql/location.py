"""URLs: ``mssql://user:password@host:port/database?parameter=value``, and ``mssql+pyodbc://`` with
``driver`` or ``dsn`` among the parameters.

What a parameter means is told at
https://learn.microsoft.com/en-us/sql/connect/odbc/dsn-connection-string-attribute
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from penstock.backends.shared.server_url import Location, ServerUrls
from penstock.errors import UsageError
from penstock.model.tables import Place

_YES_NO = ("yes", "no")
_ENTRA = (
    "ActiveDirectoryDefault",
    "ActiveDirectoryMSI",
    "ActiveDirectoryPassword",
    "ActiveDirectoryServicePrincipal",
)
URLS = ServerUrls(
    scheme="mssql",
    port=1433,
    user="",
    password_variable="MSSQL_PASSWORD",
    choices={
        "encrypt": ("strict", "yes", "no"),
        "trust_server_certificate": _YES_NO,
        "trusted_connection": _YES_NO,
        "multi_subnet_failover": _YES_NO,
        "application_intent": ("readonly", "readwrite"),
        "authentication": _ENTRA,
    },
    numbers=("connect_timeout", "packet_size"),
    texts=("host_name_in_certificate", "server_certificate", "server_spn"),
)


class OdbcUrls(ServerUrls):
    """Those of any ODBC driver, named itself or by a data source."""

    def resolve(self, url: str, environ: Mapping[str, str], flag: str) -> str:
        options = self.parse(url, flag).options
        if ("dsn" in options) == ("driver" in options):
            raise UsageError(
                f"{flag}: expected ?driver=NAME, as odbcinst.ini has it, or ?dsn=NAME, as odbc.ini "
                f"has it; found {'both' if 'dsn' in options else 'none of them'}"
            )
        if "dsn" in options and urlsplit(url).hostname:
            raise UsageError(f"{flag}: expected the host in the data source; found one in the URL")
        return ServerUrls.resolve(self, url, environ, flag)

    def place(self, url: str) -> Place:
        found = self.parse(url)
        if dsn := found.options.get("dsn"):
            return Place(URLS.scheme, dsn, None, found.database)
        # Whatever the driver, it is the same database.
        return Place(URLS.scheme, found.host, found.port, found.database)


ODBC_URLS = OdbcUrls(
    scheme="mssql+pyodbc",
    port=URLS.port,
    user=URLS.user,
    password_variable=URLS.password_variable,
    choices=URLS.choices,
    numbers=URLS.numbers,
    texts=(*URLS.texts, "driver", "dsn"),
)


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


# Bytes. The largest there is over TLS; the driver's own 4,096 cost a tenth more time per row.
PACKET_SIZE = 16_384
CONNECT_SECONDS = 15
_KEYWORDS = {
    "encrypt": "Encrypt",
    "trust_server_certificate": "TrustServerCertificate",
    "trusted_connection": "Trusted_Connection",
    "multi_subnet_failover": "MultiSubnetFailover",
    "application_intent": "ApplicationIntent",
    "authentication": "Authentication",
    "host_name_in_certificate": "HostnameInCertificate",
    "server_certificate": "ServerCertificate",
    "server_spn": "ServerSPN",
}


def connection_string(url: str) -> str:
    """What the driver is told.

    Raises:
        UsageError: malformed, or without anybody who logs in.
    """
    found = URLS.parse(url)
    trusted = found.options.get("trusted_connection") == "yes"
    if not (found.user or trusted or "authentication" in found.options):
        raise UsageError(
            "connection: expected a user in the URL, ?trusted_connection=yes or "
            "?authentication=...; found none of them"
        )
    said = {
        # The loader takes an IPv6 address after a protocol for a name, and so do both in brackets.
        "Server": f"{'' if ':' in found.host else 'tcp:'}{found.host},{found.port}",
        "KeepAlive": "60",
        "KeepAliveInterval": "10",
    }
    said["PacketSize"] = found.options.get("packet_size", str(PACKET_SIZE))
    said |= _login(found)
    said |= {_KEYWORDS[name]: value for name, value in found.options.items() if name in _KEYWORDS}
    return "".join(f"{name}={_braced(value)};" for name, value in said.items())


def _login(found: Location) -> dict[str, str]:
    said = {"Database": found.database} if found.database else {}
    return said | ({"UID": found.user, "PWD": found.password} if found.user else {})


def _braced(value: str) -> str:
    """Whatever it holds, it ends where it ends."""
    return "{" + value.replace("}", "}}") + "}"


# FreeTDS passes over what it does not know.
_FREETDS = {
    "trusted_connection": ("Trusted_Connection", {}),
    "application_intent": ("ApplicationIntent", {}),
    "server_spn": ("ServerSPN", {}),
    "packet_size": ("PacketSize", {}),
    "encrypt": ("Encryption", {"yes": "require", "no": "off"}),
}
_OURS = ("driver", "dsn", "connect_timeout")


def odbc_string(url: str, driver: str) -> str:
    """What any ODBC driver is told.

    Parameters:
        driver: its name, that of the data source's too.

    Raises:
        UsageError: malformed, or the driver cannot be told so.
    """
    found = ODBC_URLS.parse(url)
    options = {name: value for name, value in found.options.items() if name not in _OURS}
    login = _login(found)
    freetds = "tds" in driver.lower()
    if freetds:
        said = {}
        for name, value in options.items():
            keyword, words = _FREETDS.get(name, ("", {}))
            if not keyword or (words and value not in words):
                raise UsageError(f"connection: FreeTDS has no {name}={value}; leave it out")
            said[keyword] = words.get(value, value)
        if any("};" in value for value in login.values()):
            raise UsageError("connection: FreeTDS takes no user, password or database with '};'")
    else:
        keywords = {**_KEYWORDS, "packet_size": "PacketSize"}
        said = {keywords[name]: value for name, value in options.items()}
    if "dsn" in found.options:
        place = f"DSN={found.options['dsn']};"
    else:
        # FreeTDS sends what is after the name.
        server = f"{found.host};Port={found.port}" if freetds else f"tcp:{found.host},{found.port}"
        place = f"DRIVER={{{found.options['driver']}}};Server={server};"
    # FreeTDS does not know that a brace is doubled.
    braced = (
        f"{name}={f'{{{value}}}' if freetds else _braced(value)};"
        for name, value in (login | said).items()
    )
    return place + "".join(braced)
