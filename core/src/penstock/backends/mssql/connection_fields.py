"""A stored connection's fields as a URL, from Airflow's SQL Server hook or its ODBC hook."""

from __future__ import annotations

from typing import Any

from penstock.backends.api.connection_fields import ConnectionFields, is_on
from penstock.errors import UsageError

# Extras of Airflow's SQL Server hook and its library that Penstock sets itself.
_NOT_OURS = frozenset(
    {"appname", "as_dict", "autocommit", "charset", "conn_properties", "sqlalchemy_scheme"}
    | {"tds_version", "timeout", "use_datetime2"}
)
# Extras of Airflow's ODBC hook, and of FreeTDS, that Penstock sets itself.
_NOT_OURS_IN_ODBC = frozenset(
    {"app", "clientcharset", "connect_kwargs", "placeholder", "sqlalchemy_scheme", "tds_version"}
)
# Keywords of a driver that have another name in a URL.
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


def url_of_fields(fields: ConnectionFields) -> str:
    """Return the URL for a SQL Server connection's fields.

    Raises:
        UsageError: the host names an instance.
    """
    host, port = _host_and_port(fields)
    extra = dict(fields.extra)
    # In the spelling of pymssql, which Airflow's hook uses.
    if "login_timeout" in extra:
        extra.setdefault("connect_timeout", extra.pop("login_timeout"))
    if "encryption" in extra:
        extra.setdefault("encrypt", "yes" if extra.pop("encryption") == "require" else "no")
    if is_on(extra.pop("read_only", None)):
        extra.setdefault("application_intent", "readonly")
    parameters = {
        name: _text(value)
        for name, value in extra.items()
        if name not in _NOT_OURS and value not in (None, "")
    }
    return fields.url("mssql", parameters, host=host or "localhost", port=port)


def odbc_url_of_fields(fields: ConnectionFields) -> str:
    """Return the URL for an ODBC connection's fields.

    Raises:
        UsageError: the host names an instance.
    """
    parameters = {}
    for keyword, value in fields.extra.items():
        name = keyword.lower()
        if name in _NOT_OURS_IN_ODBC or value in (None, ""):
            continue
        text = _text(value).strip()
        if name in _ODBC_TEXTS:
            # As in a connection string: {ODBC Driver 18 for SQL Server}
            parameters[_ODBC_TEXTS[name]] = text.removeprefix("{").removesuffix("}")
        else:
            parameters[_ODBC_WORDS.get(name, name)] = text.lower()
    host, port = _host_and_port(fields)
    return fields.url("mssql+pyodbc", parameters, host=host, port=port)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def _host_and_port(fields: ConnectionFields) -> tuple[str, str]:
    """Return the host and the port, which SQL Server's drivers separate by a comma.

    Raises:
        UsageError: the host names an instance.
    """
    host, comma, port = fields.host.partition(",")
    if "\\" in host:
        raise UsageError(
            "expected a host in the field Host and the instance's port in the field Port; found a "
            "named instance"
        )
    return host, port.strip() if comma else fields.port
