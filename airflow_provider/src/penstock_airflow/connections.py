"""From an Airflow connection to the URL that Penstock opens."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import Any
from urllib.parse import quote, urlencode

from penstock import UsageError

POSTGRESQL = ("postgres", "postgresql")
# What Airflow's own PostgreSQL hook keeps among the extras, and libpq does not know.
NOT_FOR_LIBPQ = frozenset(
    {
        "aws_conn_id",
        "azure_oauth_scope",
        "client_encoding",
        "cluster-identifier",
        "cursor",
        "enable_log_db_messages",
        "sqlalchemy_query",
        "sqlalchemy_scheme",
        "workgroup-name",
    }
)
# Extras that stand for a token which some cloud's library has to fetch.
TOKENS = ("iam", "azure_conn_id", "redshift", "redshift-serverless")
CLOUD_SQL = "gcpcloudsql"
# Of a Google Cloud SQL connection: the instance, and how its hook gets there.
_OF_CLOUD_SQL = frozenset(
    {"database_type", "project_id", "location", "instance", "use_proxy", "use_ssl"}
    | {"use_iam", "sql_proxy_use_tcp", "sql_proxy_version", "sql_proxy_binary_path"}
)
# They speak PostgreSQL's protocol, and cannot do what a copy asks for.
_NO_STREAMS = ("redshift",)
_CHANGE_TYPE = (
    "if it leads to a PostgreSQL, set its field Connection Type to postgres, and Host, Port, "
    "Login, Password and Schema (the database's name) to what psql would take"
)
# Hosts that mean the same in a URL as they do alone; an IPv6 address goes into brackets there.
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_IPV6 = re.compile(r"[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*")


def url_of(connection: Any, conn_id: str) -> str:
    """
    Parameters:
        connection: an Airflow `Connection`.

    Raises:
        UsageError: a connection of a kind, or with an extra, that Penstock cannot use.
    """
    kind = (connection.conn_type or "").lower()
    if kind in POSTGRESQL:
        return _libpq_url(connection, conn_id)
    if kind == "aws":
        raise UsageError(
            f"connection {conn_id!r} leads to no database: expected source or target, a URL such "
            "as s3://bucket/folder/, and this connection as source_aws_conn_id or "
            "target_aws_conn_id"
        )
    if kind == CLOUD_SQL:
        return _cloud_sql_url(connection, conn_id)
    if kind in _NO_STREAMS:
        raise UsageError(
            f"connection {conn_id!r}: expected one that leads to a PostgreSQL; found {kind!r}, "
            "which takes no COPY streams: copy to or from files on S3 instead, and have it unload "
            "or load them"
        )
    schemes = {point.name for point in entry_points(group="penstock.backends")}
    if kind in schemes:
        return str(connection.get_uri())
    if _is_postgresql(connection):
        return _libpq_url(connection, conn_id)
    raise UsageError(
        f"connection {conn_id!r}: expected one of the types "
        f"{', '.join(sorted(schemes.union(POSTGRESQL, [CLOUD_SQL])))}; found {kind or 'none'!r}; "
        + _CHANGE_TYPE
    )


def _is_postgresql(connection: Any) -> bool:
    """Whether the hook of a type that some other provider brings is one of PostgreSQL's."""
    try:
        hook = connection.get_hook()
        # The connection has the fields of a PostgreSQL one only where the hook is made from that.
        return any(
            kind.__name__ == "PostgresHook" and kind.__module__.startswith("airflow.providers.")
            for kind in type(hook).__mro__
        )
    except Exception:  # a type that nobody knows, or a hook that wants more than there is
        return False


def _cloud_sql_url(connection: Any, conn_id: str) -> str:
    """
    Raises:
        UsageError: another database than PostgreSQL, or one that is reached through a program.
    """
    extras = connection.extra_dejson
    if extras.get("database_type", "") not in POSTGRESQL:
        raise UsageError(
            f"connection {conn_id!r}: expected postgres as database_type in its field Extra; found "
            f"{extras.get('database_type')!r}"
        )
    for name in ("use_proxy", "use_iam"):
        if _is_on(extras.get(name)):
            raise UsageError(
                f"connection {conn_id!r}: expected the instance's address in its field Host, and "
                f"no {name} in its field Extra, since Penstock starts no proxy and fetches no "
                "tokens; to go through a proxy that runs already, use a connection of type "
                "postgres with the proxy's Host and Port"
            )
    known = {name: value for name, value in extras.items() if name not in _OF_CLOUD_SQL}
    if _is_on(extras.get("use_ssl")):
        known.setdefault("sslmode", "verify-ca")
    return _libpq_url(connection, conn_id, known)


def _is_on(value: Any) -> bool:
    return str(value).lower() in ("true", "1", "yes")


def _libpq_url(connection: Any, conn_id: str, known: Mapping[str, Any] | None = None) -> str:
    """
    Parameters:
        known: in place of the connection's extras.
    """
    extras = dict(connection.extra_dejson if known is None else known)
    for name in TOKENS:
        if extras.pop(name, None):
            raise UsageError(
                f"connection {conn_id!r}: expected a password in its field Password, or a "
                "passfile, or sslcert and sslkey in its field Extra; found "
                f"{name!r} in Extra, whose token Penstock cannot fetch"
            )
    parameters = {
        name: str(value)
        for name, value in extras.items()
        if name not in NOT_FOR_LIBPQ and value not in (None, "")
    }
    user = quote(connection.login or "", safe="")
    if connection.password:
        user += f":{quote(connection.password, safe='')}"
    host = connection.host or ""
    port = str(connection.port or "")
    place = ""
    if _NAME.fullmatch(host) or _IPV6.fullmatch(host):
        place = f"[{host}]" if ":" in host else host
        place += f":{port}" if port else ""
    else:  # the folder of a Unix socket; several hosts, all with this port; none
        bracketed = host.startswith("[") and host.endswith("]")
        given = {"host": host[1:-1] if bracketed else host, "port": port}
        parameters = {**{name: value for name, value in given.items() if value}, **parameters}
    database = quote(connection.schema or "", safe="")
    query = f"?{urlencode(parameters, quote_via=quote)}" if parameters else ""
    return f"postgresql://{user}{'@' if user else ''}{place}/{database}{query}"
