"""``mysql://user:password@host:port/database?parameter=value``; ``mariadb://`` is the same."""

from __future__ import annotations

from typing import Any

from penstock.backends.shared.server_url import Location, ServerUrls

SSL_MODES = ("disabled", "preferred", "required", "verify_ca", "verify_identity")
_SSL_FILES = ("ssl_ca", "ssl_cert", "ssl_key")
URLS = ServerUrls(
    scheme="mysql",
    port=3306,
    user="root",
    password_variable="MYSQL_PWD",
    choices={
        "ssl_mode": SSL_MODES,
        "tinyint1": ("int", "bool"),
        "zero_dates": ("error", "null"),
    },
    numbers=("connect_timeout", "snapshot_sessions"),
    texts=(*_SSL_FILES, "unix_socket"),
    schemas_are_databases=True,
)


def tls_options(location: Location) -> dict[str, Any]:
    """Return PyMySQL's TLS options.

    Without a mode, TLS is used if the server offers it.
    """
    options = location.options
    files = {name.removeprefix("ssl_"): options[name] for name in options if name in _SSL_FILES}
    mode = options.get("ssl_mode", "verify_ca" if "ca" in files else "preferred")
    if mode == "disabled":
        return {"ssl_disabled": True}
    if mode == "preferred" and not files:
        return {}
    verified = mode.startswith("verify")
    check_hostname = mode == "verify_identity"
    return {"ssl": {**files, "verify_mode": verified, "check_hostname": check_hostname}}
