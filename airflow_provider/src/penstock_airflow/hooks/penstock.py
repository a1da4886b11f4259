"""The URL that Penstock opens, from an Airflow connection."""

from __future__ import annotations

from typing import Any

from penstock import (
    ConnectionFields,
    UsageError,
    connection_types,
    url_of_connection,
)


def connection_url(connection: Any, conn_id: str) -> str:
    """Return the URL of an Airflow connection.

    Parameters:
        connection: an Airflow `Connection`.
        conn_id: the id of the connection, for messages.

    Raises:
        UsageError: Penstock cannot use this type of connection, or one of its extra fields.
    """
    kind = (connection.conn_type or "").lower()
    if kind == "aws":
        raise UsageError(
            f"connection {conn_id!r}: expected a database, found type aws: for files on S3, pass "
            "a URL such as s3://bucket/folder/ as source or target, and this connection as "
            "source_aws_conn_id or target_aws_conn_id"
        )
    extra = dict(connection.extra_dejson)
    if kind not in connection_types():
        kind = _base_type(connection) or kind
    fields = ConnectionFields(
        kind=kind,
        host=connection.host or "",
        port=str(connection.port or ""),
        login=connection.login or "",
        password=connection.password or "",
        schema=connection.schema or "",
        extra=extra,
    )
    try:
        return url_of_connection(fields)
    except UsageError as error:
        message = error.message.removeprefix("connection: ")
        raise UsageError(f"connection {conn_id!r}: {message}") from None


def _base_type(connection: Any) -> str:
    """Return the connection type of the hook from which another provider's hook is derived.

    A derived hook has the fields of its base. The result is empty if no backend supports the type.
    """
    known = connection_types()
    try:
        hook = connection.get_hook()
        types = (vars(kind).get("conn_type") for kind in type(hook).__mro__)
        return next((each for each in types if each in known), "")
    except Exception:  # the type is unknown, or its hook cannot be created
        return ""
