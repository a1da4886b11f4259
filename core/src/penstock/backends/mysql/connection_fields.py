"""A stored connection's fields as a URL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from penstock.backends.api.connection_fields import ConnectionFields
from penstock.errors import UsageError

# Extras of Airflow's MySQL hook that Penstock sets itself.
_NOT_OURS = frozenset({"charset", "client", "cursor", "local_infile", "sqlalchemy_scheme", "ssl"})


def url_of_fields(fields: ConnectionFields) -> str:
    """Return the URL for a connection's fields.

    Raises:
        UsageError: an extra stands for a token that the hook would fetch.
    """
    if fields.extra.get("iam") or fields.extra.get("aws_conn_id"):
        raise UsageError(
            'expected a password in its field Password, or "auth": "aws-iam" in its field Extra, '
            "found iam or aws_conn_id in Extra, for which Airflow's own hook fetches a token"
        )
    extra = {k: v for k, v in fields.extra.items() if k not in ("iam", "aws_conn_id")}
    # The hook's own form: {"ca": path, "cert": path, "key": path}.
    files = extra.get("ssl")
    if isinstance(files, Mapping):
        extra |= {f"ssl_{name}": path for name, path in files.items()}
    parameters = replace(fields, extra=extra).extra_texts(_NOT_OURS)
    if "ssl_mode" in parameters:
        parameters["ssl_mode"] = parameters["ssl_mode"].lower()
    return fields.url("mysql", parameters, host=fields.host or "localhost")
