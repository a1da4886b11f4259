"""URLs: ``snowflake://user:password@account/database/schema?parameter=value``.

The place of the password may also hold a token, or the passphrase of a key.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.backends.shared.server_url import Location, ServerUrls
from penstock.errors import UsageError

DOMAIN = ".snowflakecomputing.com"
HTTPS = 443


class _Urls(ServerUrls):
    def resolve(self, url: str, environ: Mapping[str, str], flag: str) -> str:
        url = super().resolve(url, environ, flag)
        # Report now what the driver would miss later.
        location = self.parse(url)
        place(location, flag)
        login(location, flag)
        return url


URLS = _Urls(
    scheme="snowflake",
    port=HTTPS,
    user="",
    password_variable="SNOWFLAKE_PASSWORD",
    choices={
        "authenticator": ("password", "key", "oauth", "pat", "browser"),
        # For servers other than Snowflake with the same protocol.
        "protocol": ("https", "http"),
    },
    numbers=("connect_timeout",),
    texts=("warehouse", "role", "private_key_file"),
    place_form="account/database/schema",
)


def login(location: Location, flag: str = "connection") -> dict[str, Any]:
    """Return the driver's parameters about the login.

    Raises:
        UsageError: something is missing.
    """
    key = location.options.get("private_key_file")
    how = location.options.get("authenticator", "key" if key else "password")
    if not location.user:
        raise UsageError(f"{flag}: expected a user in the URL, found none")
    if (how == "key") != bool(key):
        raise UsageError(
            f"{flag}: expected ?private_key_file=FILE and authenticator=key together, found one "
            "without the other"
        )
    if how in ("password", "oauth", "pat") and not location.password:
        what = "a password" if how == "password" else "a token"
        raise UsageError(f"{flag}: expected {what} in {URLS.password_variable}, found none")
    parameters: dict[str, Any] = {"user": location.user}
    match how:
        case "key":
            parameters |= {"authenticator": "SNOWFLAKE_JWT", "private_key_file": key}
            if location.password:
                parameters["private_key_file_pwd"] = location.password
        case "oauth":
            parameters |= {"authenticator": "oauth", "token": location.password}
        case "pat":
            parameters |= {"authenticator": "PROGRAMMATIC_ACCESS_TOKEN", "token": location.password}
        case "browser":
            # Otherwise each session would open a window.
            parameters |= {
                "authenticator": "externalbrowser",
                "client_store_temporary_credential": True,
            }
        case _:
            parameters["password"] = location.password
    return parameters


def place(location: Location, flag: str = "connection") -> dict[str, Any]:
    """Return the driver's parameters about the server and database.

    Raises:
        UsageError: the URL has no database.
    """
    database, _, schema = location.database.partition("/")
    if not database:
        raise UsageError(f"{flag}: expected a database in the URL, found none")
    parameters: dict[str, Any] = {"account": location.host.removesuffix(DOMAIN)}
    if location.host.endswith(DOMAIN) or location.port != HTTPS or "protocol" in location.options:
        parameters |= {"host": location.host, "port": location.port}
        parameters["protocol"] = location.options.get("protocol", "https")
    parameters |= {
        name: location.options[name] for name in ("warehouse", "role") if name in location.options
    }
    return {**parameters, "database": database, "schema": schema or "PUBLIC"}
