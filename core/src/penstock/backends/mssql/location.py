"""URLs: ``mssql://user:password@host:port/database?parameter=value``.

Parameters are documented at
https://learn.microsoft.com/en-us/sql/connect/odbc/dsn-connection-string-attribute
"""

from __future__ import annotations

from penstock.backends.shared.server_url import Location, ServerUrls
from penstock.errors import UsageError

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


# Bytes. The maximum over TLS; the driver's default of 4,096 costs 10 % more time per row.
PACKET_SIZE = 16_384
CONNECT_SECONDS = 15
KEYWORDS = {
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
    """Return the driver's connection string.

    Raises:
        UsageError: the URL is malformed, or has no user.
    """
    location = URLS.parse(url)
    trusted = location.options.get("trusted_connection") == "yes"
    if not (location.user or trusted or "authentication" in location.options):
        raise UsageError(
            "connection: expected a user, ?trusted_connection=yes or ?authentication=... in the "
            "URL; found none of them"
        )
    keywords = {
        # The loader takes an IPv6 address after a protocol for a name; in brackets, so do both.
        "Server": f"{'' if ':' in location.host else 'tcp:'}{location.host},{location.port}",
        "KeepAlive": "60",
        "KeepAliveInterval": "10",
    }
    keywords["PacketSize"] = location.options.get("packet_size", str(PACKET_SIZE))
    keywords |= login(location)
    keywords |= {
        KEYWORDS[name]: value for name, value in location.options.items() if name in KEYWORDS
    }
    return "".join(f"{name}={braced(value)};" for name, value in keywords.items())


def login(location: Location) -> dict[str, str]:
    """Return the user and database as keywords of a connection string."""
    keywords = {"Database": location.database} if location.database else {}
    return keywords | ({"UID": location.user, "PWD": location.password} if location.user else {})


def braced(value: str) -> str:
    """Return a value in braces, so that its end is unambiguous."""
    return "{" + value.replace("}", "}}") + "}"
