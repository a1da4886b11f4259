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
        found = self.parse(url)
        place(found, flag)
        login(found, flag)
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


def login(found: Location, flag: str = "connection") -> dict[str, Any]:
    """Return the driver's parameters about the login.

    Raises:
        UsageError: something is missing.
    """
    key = found.options.get("private_key_file")
    how = found.options.get("authenticator", "key" if key else "password")
    if not found.user:
        raise UsageError(f"{flag}: expected a user in the URL, found none")
    if (how == "key") != bool(key):
        raise UsageError(
            f"{flag}: expected ?private_key_file=FILE and authenticator=key together, found one "
            "without the other"
        )
    if how in ("password", "oauth", "pat") and not found.password:
        what = "a password" if how == "password" else "a token"
        raise UsageError(f"{flag}: expected {what} in {URLS.password_variable}, found none")
    said: dict[str, Any] = {"user": found.user}
    match how:
        case "key":
            said |= {"authenticator": "SNOWFLAKE_JWT", "private_key_file": key}
            if found.password:
                said["private_key_file_pwd"] = found.password
        case "oauth":
            said |= {"authenticator": "oauth", "token": found.password}
        case "pat":
            said |= {"authenticator": "PROGRAMMATIC_ACCESS_TOKEN", "token": found.password}
        case "browser":
            # Otherwise each session would open a window.
            said |= {"authenticator": "externalbrowser", "client_store_temporary_credential": True}
        case _:
            said["password"] = found.password
    return said


def place(found: Location, flag: str = "connection") -> dict[str, Any]:
    """Return the driver's parameters about the server and database.

    Raises:
        UsageError: the URL has no database.
    """
    database, _, schema = found.database.partition("/")
    if not database:
        raise UsageError(f"{flag}: expected a database in the URL, found none")
    said: dict[str, Any] = {"account": found.host.removesuffix(DOMAIN)}
    if found.host.endswith(DOMAIN) or found.port != HTTPS or "protocol" in found.options:
        said |= {"host": found.host, "port": found.port}
        said["protocol"] = found.options.get("protocol", "https")
    said |= {name: found.options[name] for name in ("warehouse", "role") if name in found.options}
    return {**said, "database": database, "schema": schema or "PUBLIC"}
