"""A stored connection's fields as a URL."""

from __future__ import annotations

from penstock.backends.api.connection_fields import ConnectionFields

# Extras of Airflow's ClickHouse hook that Penstock sets itself.
_NOT_OURS = frozenset({"client_name", "compress", "send_receive_timeout"})


def url_of_fields(fields: ConnectionFields) -> str:
    """Return the URL for a ClickHouse connection's fields."""
    parameters = {
        name: text.lower() if name in ("secure", "verify") else text
        for name, text in fields.extra_texts(_NOT_OURS).items()
    }
    return fields.url("clickhouse", parameters, host=fields.host or "localhost")
