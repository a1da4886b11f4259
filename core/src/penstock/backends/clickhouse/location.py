"""``clickhouse://user:password@host:port/database?parameter=value``."""

from __future__ import annotations

from typing import Any

from penstock.backends.shared.server_url import Location, ServerUrls

PORT, TLS_PORT = 8123, 8443
URLS = ServerUrls(
    scheme="clickhouse",
    port=PORT,
    user="",
    password_variable="CLICKHOUSE_PASSWORD",
    choices={"secure": ("true", "false"), "verify": ("true", "false")},
    numbers=("connect_timeout",),
    texts=("ca_cert",),
    schemas_are_databases=True,
)


def client_options(location: Location) -> dict[str, Any]:
    """Return clickhouse-connect's parameters for a server."""
    options = location.options
    secure = options.get("secure") == "true" or location.port == TLS_PORT
    return {
        "host": location.host,
        "port": location.port,
        "username": location.user or "default",
        "password": location.password,
        "database": location.database or "default",
        "interface": "https" if secure else "http",
        "verify": options.get("verify") != "false",
        "ca_cert": options.get("ca_cert"),
        "connect_timeout": int(options.get("connect_timeout", 10)),
    }
