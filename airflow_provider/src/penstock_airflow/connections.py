"""From an Airflow connection to the URL that Penstock opens."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import Any
from urllib.parse import quote, urlencode

from penstock import UsageError

POSTGRESQL = ("postgres", "postgresql")
MYSQL = ("mysql", "mariadb")
# Extras for Airflow's own MySQL hook that mean nothing to Penstock, which sets these itself.
_NOT_FOR_MYSQL = frozenset({"charset", "client", "cursor", "local_infile", "sqlalchemy_scheme"})
CLICKHOUSE = "clickhouse"
# Extras for the ClickHouse hook that mean nothing to Penstock, which sets these itself.
_NOT_FOR_CLICKHOUSE = frozenset({"client_name", "compress", "send_receive_timeout"})
MSSQL = "mssql"
# Extras for Airflow's own SQL Server hook, and the library below it, that mean nothing to Penstock.
_NOT_FOR_MSSQL = frozenset(
    {"appname", "as_dict", "autocommit", "charset", "conn_properties", "sqlalchemy_scheme"}
    | {"tds_version", "timeout", "use_datetime2"}
)
ODBC = "odbc"
# Extras for Airflow's own ODBC hook, and FreeTDS, that mean nothing to Penstock.
_NOT_FOR_ODBC = frozenset(
    {"app", "clientcharset", "connect_kwargs", "placeholder", "sqlalchemy_scheme", "tds_version"}
)
# The others are keywords of a driver, and parameters of a URL under another name.
_ODBC_WORDS = {
    "applicationintent": "application_intent",
    "multisubnetfailover": "multi_subnet_failover",
    "packetsize": "packet_size",
    "trustservercertificate": "trust_server_certificate",
}
_ODBC_TEXTS = {
    "authentication": "authentication",
    "driver": "driver",
    "dsn": "dsn",
    "hostnameincertificate": "host_name_in_certificate",
    "servercertificate": "server_certificate",
    "serverspn": "server_spn",
}
SNOWFLAKE = "snowflake"
# Extras for Airflow's own Snowflake hook that mean nothing to Penstock, which sets these itself.
_NOT_FOR_SNOWFLAKE = frozenset(
    {"client_request_mfa_token", "client_store_temporary_credential", "insecure_mode"}
    | {"json_result_force_utf8_decoding", "ocsp_fail_open", "session_parameters"}
)
# Those that ask for what Penstock cannot do, and what to do instead.
_REFUSED_FOR_SNOWFLAKE = {
    **dict.fromkeys(
        ("azure_conn_id", "grant_type", "refresh_token", "scope", "token_endpoint"),
        "a token as its Password, since Penstock fetches none",
    ),
    "private_key_content": "the path of a file with the key in private_key_file of its field Extra",
    **dict.fromkeys(
        ("proxy_host", "proxy_port", "proxy_user", "proxy_password"),
        "the proxy in the variable HTTPS_PROXY of the workers",
    ),
}
_AUTHENTICATORS = {
    "snowflake": "password",
    "externalbrowser": "browser",
    "snowflake_jwt": "key",
    "programmatic_access_token": "pat",
}
# Extras for Airflow's own PostgreSQL hook, unknown to libpq.
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
# Extras that stand for a token that a cloud's library must fetch.
TOKENS = ("iam", "azure_conn_id", "redshift", "redshift-serverless")
CLOUD_SQL = "gcpcloudsql"
# Extras of a Google Cloud SQL connection: the instance, and how its hook connects.
_OF_CLOUD_SQL = frozenset(
    {"database_type", "project_id", "location", "instance", "use_proxy", "use_ssl"}
    | {"use_iam", "sql_proxy_use_tcp", "sql_proxy_version", "sql_proxy_binary_path"}
)
# Types that speak PostgreSQL's protocol, but cannot do what a copy needs.
_NO_STREAMS = ("redshift",)
_CHANGE_TYPE = (
    "if it leads to PostgreSQL, set its field Connection Type to postgres, and Host, Port, "
    "Login, Password and Schema (the database's name) as for psql"
)
# Hosts that can stand in a URL as they are; an IPv6 address needs brackets there.
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_IPV6 = re.compile(r"[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*")


def url_of(connection: Any, conn_id: str) -> str:
    """
    Parameters:
        connection: an Airflow `Connection`.

    Raises:
        UsageError: Penstock cannot use this type of connection, or one of its extras.
    """
    kind = (connection.conn_type or "").lower()
    if kind in POSTGRESQL:
        return _libpq_url(connection, conn_id)
    if kind in MYSQL:
        return _mysql_url(connection, conn_id)
    if kind == CLICKHOUSE:
        return _clickhouse_url(connection)
    if kind == MSSQL:
        return _mssql_url(connection, conn_id)
    if kind == ODBC:
        return _odbc_url(connection, conn_id)
    if kind == SNOWFLAKE:
        return _snowflake_url(connection, conn_id)
    if kind == "aws":
        raise UsageError(
            f"connection {conn_id!r} does not lead to a database: pass a URL such as "
            "s3://bucket/folder/ as source or target, and this connection as source_aws_conn_id or "
            "target_aws_conn_id"
        )
    if kind == CLOUD_SQL:
        return _cloud_sql_url(connection, conn_id)
    if kind in _NO_STREAMS:
        raise UsageError(
            f"connection {conn_id!r}: expected one that leads to PostgreSQL; found {kind!r}, "
            "which does not support COPY streams: copy to or from files on S3 instead, and let it "
            "load or unload them"
        )
    points = entry_points(group="penstock.backends")
    schemes = {point.name for point in points if "+" not in point.name}
    if kind in schemes:
        return str(connection.get_uri())
    if _is_postgresql(connection):
        return _libpq_url(connection, conn_id)
    types = sorted(schemes.union(POSTGRESQL, [CLOUD_SQL, ODBC]))
    raise UsageError(
        f"connection {conn_id!r}: expected one of the types {', '.join(types)}; found "
        f"{kind or 'none'!r}; {_CHANGE_TYPE}"
    )


def _is_postgresql(connection: Any) -> bool:
    """Whether the hook of another provider's connection type is a PostgreSQL hook."""
    try:
        hook = connection.get_hook()
        # Only hooks derived from Airflow's own have a PostgreSQL connection's fields.
        return any(
            kind.__name__ == "PostgresHook" and kind.__module__.startswith("airflow.providers.")
            for kind in type(hook).__mro__
        )
    except Exception:  # an unknown type, or a hook that cannot be created
        return False


def _cloud_sql_url(connection: Any, conn_id: str) -> str:
    """
    Raises:
        UsageError: the database is not PostgreSQL, or is reached through a proxy program.
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
                "tokens; to use a running proxy, create a connection of type postgres with the "
                "proxy's Host and Port"
            )
    known = {name: value for name, value in extras.items() if name not in _OF_CLOUD_SQL}
    if _is_on(extras.get("use_ssl")):
        known.setdefault("sslmode", "verify-ca")
    return _libpq_url(connection, conn_id, known)


def _mysql_url(connection: Any, conn_id: str) -> str:
    """
    Raises:
        UsageError: an extra stands for a token.
    """
    extras = dict(connection.extra_dejson)
    if extras.pop("iam", None) or extras.pop("aws_conn_id", None):
        raise UsageError(
            f"connection {conn_id!r}: expected a password in its field Password; found extras for "
            "a token, which Penstock cannot fetch"
        )
    # The hook's own: {"ca": path, "cert": path, "key": path}.
    files = extras.pop("ssl", None)
    if isinstance(files, Mapping):
        extras |= {f"ssl_{name}": path for name, path in files.items()}
    parameters = {
        name: str(value).lower() if name == "ssl_mode" else str(value)
        for name, value in extras.items()
        if name not in _NOT_FOR_MYSQL and value not in (None, "")
    }
    host, port = connection.host or "localhost", str(connection.port or "")
    return _server_url("mysql", connection, host, port, parameters)


def _clickhouse_url(connection: Any) -> str:
    parameters = {
        name: str(value).lower() if name in ("secure", "verify") else str(value)
        for name, value in connection.extra_dejson.items()
        if name not in _NOT_FOR_CLICKHOUSE and value not in (None, "")
    }
    host, port = connection.host or "localhost", str(connection.port or "")
    return _server_url(CLICKHOUSE, connection, host, port, parameters)


def _host_and_port(connection: Any, conn_id: str) -> tuple[str, str]:
    """As SQL Server's drivers have them: with a comma.

    Raises:
        UsageError: the host names an instance.
    """
    host, comma, port = (connection.host or "").partition(",")
    if "\\" in host:
        raise UsageError(
            f"connection {conn_id!r}: expected a host in its field Host, and the instance's port "
            "in its field Port; found the name of an instance"
        )
    return host, port.strip() if comma else str(connection.port or "")


def _mssql_url(connection: Any, conn_id: str) -> str:
    host, port = _host_and_port(connection, conn_id)
    extras = dict(connection.extra_dejson)
    # As pymssql has them, which Airflow's own hook connects with.
    if "login_timeout" in extras:
        extras.setdefault("connect_timeout", extras.pop("login_timeout"))
    if "encryption" in extras:
        extras.setdefault("encrypt", "yes" if extras.pop("encryption") == "require" else "no")
    if _is_on(extras.pop("read_only", None)):
        extras.setdefault("application_intent", "readonly")
    parameters = {
        name: ("yes" if value else "no") if isinstance(value, bool) else str(value)
        for name, value in extras.items()
        if name not in _NOT_FOR_MSSQL and value not in (None, "")
    }
    return _server_url(MSSQL, connection, host or "localhost", port, parameters)


def _odbc_url(connection: Any, conn_id: str) -> str:
    parameters = {}
    for written, value in connection.extra_dejson.items():
        name = written.lower()
        if name in _NOT_FOR_ODBC or value in (None, ""):
            continue
        text = ("yes" if value else "no") if isinstance(value, bool) else str(value).strip()
        if name in _ODBC_TEXTS:
            # As in a connection string: {ODBC Driver 18 for SQL Server}
            parameters[_ODBC_TEXTS[name]] = text.removeprefix("{").removesuffix("}")
        else:
            parameters[_ODBC_WORDS.get(name, name)] = text.lower()
    host, port = _host_and_port(connection, conn_id)
    return _server_url(f"{MSSQL}+pyodbc", connection, host, port, parameters)


def _snowflake_url(connection: Any, conn_id: str) -> str:
    """
    Raises:
        UsageError: an extra asks for what Penstock cannot do.
    """
    extras = {
        name.removeprefix("extra__snowflake__"): str(value)
        for name, value in connection.extra_dejson.items()
        if value not in (None, "", False)
    }
    for name, instead in _REFUSED_FOR_SNOWFLAKE.items():
        if name in extras:
            raise UsageError(f"connection {conn_id!r}: expected {instead}; found {name} in Extra")
    account, region = extras.pop("account", connection.host or ""), extras.pop("region", "")
    if region and "." not in account:
        account = f"{account}.{region}"
    port = extras.pop("port", str(connection.port or ""))
    database = connection.schema or ""
    if "database" in extras:
        database = f"{extras.pop('database')}/{database}".rstrip("/")
    if how := extras.pop("authenticator", "").lower():
        extras["authenticator"] = _AUTHENTICATORS.get(how, how)
    if "private_key_file" in extras:
        extras.pop("authenticator", "")  # as the hook has it: a key comes first
    host = extras.pop("host", account)
    known = {name: text for name, text in extras.items() if name not in _NOT_FOR_SNOWFLAKE}
    return _server_url(SNOWFLAKE, connection, host, port, known, database)


def _server_url(
    scheme: str,
    connection: Any,
    host: str,
    port: str,
    parameters: Mapping[str, str],
    database: str | None = None,
) -> str:
    """
    Parameters:
        database: the connection's field Schema by default.
    """
    user = quote(connection.login or "", safe="")
    if connection.password:
        user += f":{quote(connection.password, safe='')}"
    place = f"[{host}]" if ":" in host else host
    place += f":{port}" if port else ""
    named = quote((connection.schema or "") if database is None else database, safe="")
    query = f"?{urlencode(parameters, quote_via=quote)}" if parameters else ""
    return f"{scheme}://{user}{'@' if user else ''}{place}/{named}{query}"


def _is_on(value: Any) -> bool:
    return str(value).lower() in ("true", "1", "yes")


def _libpq_url(connection: Any, conn_id: str, known: Mapping[str, Any] | None = None) -> str:
    """
    Parameters:
        known: replaces the connection's extras.
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
    else:  # the folder of a Unix socket; several hosts, all with this port; no host
        bracketed = host.startswith("[") and host.endswith("]")
        given = {"host": host[1:-1] if bracketed else host, "port": port}
        parameters = {**{name: value for name, value in given.items() if value}, **parameters}
    database = quote(connection.schema or "", safe="")
    query = f"?{urlencode(parameters, quote_via=quote)}" if parameters else ""
    return f"postgresql://{user}{'@' if user else ''}{place}/{database}{query}"
