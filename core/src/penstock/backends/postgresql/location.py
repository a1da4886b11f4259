"""URLs: checked without connecting, their secrets, and what they refer to."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl

import psycopg
from psycopg import conninfo, pq

from penstock.backends.shared.tokens import is_this_machine
from penstock.errors import UsageError
from penstock.model.tables import Place

# The scheme in asset and lineage names, and the port for a URL without one.
SCHEME = "postgres"
DEFAULT_PORT = 5432
_FORM = "postgresql://user:password@host:port/database"
_ESCAPES = "write %2F, %40, %3A, %23, %3F, %25, %26, %5B or %5D for / @ : # ? % & [ ] in a password"
MAX_PORT = 65535
_URL = re.compile(r"[^\s=]*://")
_SLASH_IN_LOGIN = re.compile(r"[^/]*//[^/?]*/[^?]*@")
_PARAMETER = re.compile(r"[a-z_]+")
_SECRET_NAME = re.compile(r"pass|secret|token|key", re.I)
# https://go.dev/src/crypto/x509/root_linux.go lists where systems keep their certificates.
_SYSTEM_CERTIFICATES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
_ENCRYPTED = ("require", "verify-ca", "verify-full")
_HIDDEN = ("password", "sslpassword", "oauth_client_secret")


def parts_of(url: str, flag: str) -> dict[str, Any]:
    """Return libpq's parameters for a URL, or for what `resolve` has turned it into.

    Raises:
        UsageError: libpq cannot parse the URL, or could not connect anywhere with it. The message
            shows neither the URL nor libpq's own message: any part of them may belong to a
            password.
    """
    # A resolved URL is a list of parameters, in which no @ is escaped.
    if _URL.match(url) and (_SLASH_IN_LOGIN.match(url) or url.count("@") > 1):
        raise UsageError(
            f"{flag}: malformed URL: expected {_FORM}, found an unescaped '/' or '@' before the "
            f"host; {_ESCAPES}"
        )
    try:
        parts = conninfo.conninfo_to_dict(url)
        conninfo.make_conninfo("", **parts)
    except (psycopg.Error, ValueError):
        unknown = _unknown_parameters(url)
        problem = (
            f"{', '.join(map(repr, unknown))}, which libpq does not accept as a parameter"
            if unknown
            else f"one that libpq cannot parse, for example an unescaped %, [ or &; {_ESCAPES}"
        )
        raise UsageError(f"{flag}: malformed URL: expected {_FORM}, found {problem}") from None
    for port in str(parts.get("port", "") or "").split(","):
        if port and not (re.fullmatch(r"[0-9]+", port) and 0 < int(port[:6]) <= MAX_PORT):
            raise UsageError(
                f"{flag}: malformed URL: expected a number from 1 to {MAX_PORT} as port"
            )
    return parts


def _unknown_parameters(url: str) -> list[str]:
    """Return parameters that libpq rejects, unless they may be part of a password with a &."""
    head, _, query = url.partition("?")
    _, at, _ = head.partition("//")[2].partition("/")[0].rpartition("@")
    if "@" in query or (":" in head.partition("//")[2] and not at):
        return []  # the query may begin inside a password
    parameters = {option.keyword.decode() for option in pq.Conninfo.get_defaults()} | {"ssl"}
    names: list[str] = []
    for name, _ in parse_qsl(query, keep_blank_values=True):
        if not _PARAMETER.fullmatch(name) or _SECRET_NAME.search(name):
            break
        names.append(name)
    return [name for name in names if name not in parameters]


def resolve(url: str, environ: Mapping[str, str], flag: str) -> str:
    """Check a URL and add PGPASSWORD to it, so that no child process needs it in its environment.

    A service's password comes before PGPASSWORD, as in libpq. Several hosts are tried in their
    order, whatever `load_balance_hosts` says.

    Args:
        url: the URL, as the user gave it.
        environ: the environment of the process; if it is empty, no file is read.
        flag: the option or argument that holds the URL, for error messages.

    Raises:
        UsageError: see `parts_of`.
    """
    parts = parts_of(url, flag)
    service = _of_service(parts, environ)
    whole = {**service, **parts}
    password = whole.get("password", environ.get("PGPASSWORD"))
    # Workers read a service themselves. Its password goes elsewhere only if the URL says where.
    if password and ("password" not in service or {"host", "hostaddr"} & set(parts)):
        parts["password"] = password
    if whole.get("load_balance_hosts") or environ.get("PGLOADBALANCEHOSTS"):
        # All sessions of a run must reach one server, from any process: a snapshot exists on one.
        parts["load_balance_hosts"] = "disable"
    parts |= _system_certificates(whole, environ)
    return conninfo.make_conninfo("", **parts)


def _of_service(parts: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the parameters that a service (`pg_service.conf`) adds, and libpq's defaults.

    A service that is not found adds none; connecting will report it.
    """
    service = parts.get("service") or environ.get("PGSERVICE")
    if not service or not environ:
        return {}
    # libpq reads the file as it begins to connect, which fails at once without such a socket. An
    # explicit address, if empty, replaces that of the service.
    nowhere = conninfo.make_conninfo("", service=service, host=os.devnull, hostaddr="", port="")
    connection = pq.PGconn.connect_start(nowhere.encode())
    try:
        options = connection.info
        found = {option.keyword.decode(): option.val.decode() for option in options if option.val}
    finally:
        connection.finish()
    if found.get("password") == os.environ.get("PGPASSWORD"):
        found.pop("password", None)  # of the environment
    return found


def _system_certificates(parts: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the parameters for ``sslrootcert=system`` where libpq would not find them.

    The OpenSSL of psycopg's wheels looks in a folder that exists nowhere.
    """
    named = parts.get("sslrootcert") or environ.get("PGSSLROOTCERT")
    if named != "system" or pq.__impl__ != "binary":
        return {}
    if environ.get("SSL_CERT_FILE") or environ.get("SSL_CERT_DIR"):
        return {}
    # libpq accepts no weaker mode with the system's certificates, and says so.
    if (parts.get("sslmode") or environ.get("PGSSLMODE") or "verify-full") != "verify-full":
        return {}
    import ssl  # noqa: PLC0415 - seldom

    for path in (ssl.get_default_verify_paths().cafile, *_SYSTEM_CERTIFICATES):
        if path and os.path.isfile(path):
            return {"sslrootcert": path, "sslmode": "verify-full"}
    return {}


def is_private(url: str, environ: Mapping[str, str]) -> bool:
    """Whether all sessions of a resolved URL are encrypted, or stay on this machine.

    Args:
        url: the URL.
        environ: the environment, whose settings libpq reads.
    """
    parts = parts_of(url, "connection")
    whole = {**_of_service(parts, environ), **parts}
    if (whole.get("sslrootcert") or environ.get("PGSSLROOTCERT")) == "system":
        return True  # libpq accepts nothing but sslmode=verify-full with it
    if (whole.get("sslmode") or environ.get("PGSSLMODE")) in _ENCRYPTED:
        return True
    hosts = str(whole.get("hostaddr") or whole.get("host") or "").split(",")
    return all(map(is_this_machine, hosts))


def through(
    url: str, environ: Mapping[str, str], tunnel: Callable[[str, int], str], flag: str
) -> str:
    """See `TakesTunnels`: libpq connects to `hostaddr`, and verifies `host`."""
    parts = parts_of(url, flag)
    whole = {**_of_service(parts, environ), **parts}
    host = str(whole.get("host") or whole.get("hostaddr") or environ.get("PGHOST") or "")
    address = str(whole.get("hostaddr") or host)
    port = str(whole.get("port") or environ.get("PGPORT") or DEFAULT_PORT)
    if not host or "," in host + address + port or address.startswith(("/", "@")):
        raise UsageError(
            f"{flag}: ssh: expected one host in the URL, found none, several, or a socket"
        )
    parts |= {"host": host, "port": port, "hostaddr": tunnel(address, int(port))}
    return conninfo.make_conninfo("", **parts)


def secrets(url: str) -> tuple[str, ...]:
    """Return the parts of a connection string that libpq itself hides from display."""
    parameters = conninfo.conninfo_to_dict(url)
    return tuple(str(parameters[name]) for name in _HIDDEN if parameters.get(name))


def place_of(url: str) -> Place:
    """Return the place that a URL refers to.

    For several hosts it is the first; for a socket, `localhost`; without a host, the name of the
    service (`pg_service.conf`).

    Args:
        url: the URL with its secrets, none of which is in the result.

    Raises:
        UsageError: the URL is malformed.
    """
    parts = parts_of(url, "connection")

    def first(name: str) -> str:
        return str(parts.get(name) or "").split(",")[0]

    service = parts.get("service")
    host = first("host") or first("hostaddr")
    if not host or host.startswith(("/", "@")):
        host = "localhost" if host else service or "localhost"
    return Place(
        SCHEME,
        host.lower(),
        int(first("port") or DEFAULT_PORT),
        parts.get("dbname") or parts.get("user") or service or "postgres",
    )
