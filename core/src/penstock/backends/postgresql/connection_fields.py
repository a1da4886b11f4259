"""A stored connection's fields as a URL for libpq."""

from __future__ import annotations

import re
from dataclasses import replace

from penstock.backends.api.connection_fields import ConnectionFields, is_on
from penstock.errors import UsageError

# Extras of Airflow's PostgreSQL hook that libpq does not support.
_NOT_FOR_LIBPQ = frozenset(
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
# Extras that stand for a token, which the hook fetches by another of its connections, and what
# Penstock has instead.
_TOKENS = {
    "iam": 'or "auth": "aws-iam"',
    "azure_conn_id": 'or "auth": "entra"',
    "redshift": "",
    "redshift-serverless": "",
}
# Extras of a Google Cloud SQL connection: the instance, and how the hook connects to it.
_OF_CLOUD_SQL = frozenset(
    {"database_type", "project_id", "location", "instance", "use_proxy", "use_ssl"}
    | {"use_iam", "sql_proxy_use_tcp", "sql_proxy_version", "sql_proxy_binary_path"}
)
# Hosts that can appear in a URL unchanged; an IPv6 address needs brackets.
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_IPV6 = re.compile(r"[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*")


def url_of_fields(fields: ConnectionFields) -> str:
    """Return the URL for a connection's fields.

    Raises:
        UsageError: an extra stands for a token that the hook would fetch.
    """
    for name, instead in _TOKENS.items():
        if fields.extra.get(name):
            raise UsageError(
                "expected a password in its field Password, or a passfile, or sslcert and sslkey, "
                f"{instead}{', ' if instead else ''}in its field Extra, found {name!r} in Extra, "
                "for which Airflow's own hook fetches a token"
            )
    parameters = fields.extra_texts(_NOT_FOR_LIBPQ.union(_TOKENS))
    host = fields.host
    if _NAME.fullmatch(host) or _IPV6.fullmatch(host):
        return fields.url("postgresql", parameters)
    # A directory of Unix sockets, several hosts with the same port, or no host.
    bracketed = host.startswith("[") and host.endswith("]")
    address = {"host": host[1:-1] if bracketed else host, "port": fields.port}
    parameters = {**{name: value for name, value in address.items() if value}, **parameters}
    return fields.url("postgresql", parameters, host="", port="")


def cloud_sql_url_of_fields(fields: ConnectionFields) -> str:
    """Return the URL for a Google Cloud SQL connection's fields.

    Raises:
        UsageError: the instance is not PostgreSQL, or needs a proxy program.
    """
    database = fields.extra.get("database_type")
    if database not in ("postgres", "postgresql"):
        raise UsageError(
            f"expected postgres as database_type in its field Extra, found {database!r}"
        )
    for name in ("use_proxy", "use_iam"):
        if is_on(fields.extra.get(name)):
            raise UsageError(
                "expected the instance's address in its field Host, and no "
                f"{name} in its field Extra: Penstock starts no proxy; for a token, create a "
                'connection of type postgres with "auth": "gcp-iam" in Extra; to '
                "use a running proxy, create a connection of type postgres with the proxy's Host "
                "and Port"
            )
    extra = {name: value for name, value in fields.extra.items() if name not in _OF_CLOUD_SQL}
    if is_on(fields.extra.get("use_ssl")):
        extra.setdefault("sslmode", "verify-ca")
    return url_of_fields(replace(fields, extra=extra))
