"""The hook: an Airflow connection as the URL that Penstock opens."""

from __future__ import annotations

import json
from typing import Any

import penstock
from penstock import (
    ConnectionFields,
    PenstockError,
    UsageError,
    as_arguments,
    connection_types,
    place_of,
    url_of_connection,
)
from penstock_airflow.provider_info import FIELD_BEHAVIOUR
from penstock_airflow.sdk import BaseHook

_TYPE = "penstock"
# The extra field of such a connection that holds the type of database.
_TYPE_FIELD = "type"
# The extra field that says what the button Test tries.
_AS_TARGET_FIELD = "as_target"


class PenstockHook(BaseHook):  # type: ignore[misc, unused-ignore]
    """The URL of an Airflow connection, for Penstock's functions in a task of your own.

    It supports every type of connection that the operators support. Its own type, `penstock`, is
    for databases whose Airflow provider is not installed: the extra field `type` holds the type
    that their provider would have.

    Args:
        penstock_conn_id: the id of the connection.
        kwargs: the arguments of every hook.
    """

    conn_name_attr = "penstock_conn_id"
    default_conn_name = "penstock_default"
    conn_type = _TYPE
    hook_name = "Penstock"

    def __init__(self, penstock_conn_id: str = default_conn_name, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.penstock_conn_id = penstock_conn_id

    @classmethod
    def get_ui_field_behaviour(cls) -> dict[str, Any]:
        """Return labels and examples for the form of Airflow 2.11; later ones read the metadata."""
        behaviour = {key.replace("-", "_"): value for key, value in FIELD_BEHAVIOUR.items()}
        example = json.dumps({_TYPE_FIELD: connection_types()[0]})
        return {**behaviour, "placeholders": {**behaviour["placeholders"], "extra": example}}

    def get_url(self) -> str:
        """Return the URL of the connection. It holds secrets.

        Raises:
            AirflowNotFoundException: the connection does not exist.
            UsageError: Penstock cannot use this type of connection, or one of its extra fields.
        """
        return connection_url(self.get_connection(self.penstock_conn_id), self.penstock_conn_id)

    def test_connection(self) -> tuple[bool, str]:
        """Connect, and return whether that worked and a message, which shows no secret.

        A source only has to be reached, because a role that reads has no rights on Penstock's own
        tables. With the extra field `as_target`, they are read, too.
        """
        extra = self.get_connection(self.penstock_conn_id).extra_dejson
        side = "target" if str(extra.get(_AS_TARGET_FIELD)).lower() == "true" else "source"
        try:
            url = self.get_url()
            if side == "target":
                penstock.runs(target=url, limit=1)
            else:
                penstock.check_source(url)
        except PenstockError as error:
            return False, as_arguments(error.message)
        return True, f"connected to {place_of(url).namespace}, as to a {side}"


def connection_url(connection: Any, conn_id: str) -> str:
    """Return the URL of an Airflow connection.

    Args:
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
    if kind == _TYPE:
        extra.pop(_AS_TARGET_FIELD, None)
        kind = str(extra.pop(_TYPE_FIELD, "")).lower()
        if kind not in connection_types():
            raise UsageError(
                f"connection {conn_id!r}: expected {_TYPE_FIELD} in its field Extra, one of "
                f"{', '.join(connection_types())}; found {kind or 'none'}"
            )
    elif kind not in connection_types():
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
    supported = connection_types()
    try:
        hook = connection.get_hook()
        types = (vars(kind).get("conn_type") for kind in type(hook).__mro__)
        return next((each for each in types if each in supported), "")
    except Exception:  # the type is unknown, or its hook cannot be created
        return ""
