"""From an Airflow connection to the URL that Penstock opens."""

from __future__ import annotations

import re
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
    schemes = {point.name for point in entry_points(group="penstock.backends")}
    if kind not in schemes:
        raise UsageError(
            f"connection {conn_id!r}: expected one of the types "
            f"{', '.join(sorted(schemes.union(POSTGRESQL)))}; found {kind or 'none'!r}"
        )
    return str(connection.get_uri())


def _libpq_url(connection: Any, conn_id: str) -> str:
    extras = dict(connection.extra_dejson)
    for name in TOKENS:
        if extras.pop(name, None):
            raise UsageError(
                f"connection {conn_id!r}: expected a password, a passfile or a certificate; found "
                f"the extra {name!r}, whose token Penstock cannot fetch"
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
