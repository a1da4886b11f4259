"""Parameters of an `s3://` URL from an Airflow connection of type `aws`."""

from __future__ import annotations

from typing import Any

from penstock import TransientError, UsageError

TYPE = "aws"
# Extra fields that make a connection assume a role.
ROLE_EXTRAS = ("role_arn", "assume_role_method", "assume_role_kwargs", "external_id")
_NO_PROVIDER = "install apache-airflow-providers-amazon on the workers, or set keys instead"


def s3_parameters(connection: Any, conn_id: str) -> dict[str, str | None]:
    """Return keys, endpoint and region as parameters of an `s3://` URL. They hold secrets.

    If the connection has no keys, the machine that copies finds them: in a profile, in the
    environment, or in its instance metadata.

    Args:
        connection: an Airflow `Connection`. Login and password are the keys; the extra fields are
            those of Airflow's Amazon provider: `aws_session_token`, `endpoint_url`, `region_name`,
            `profile_name`, `role_arn`, `service_config`, `config_kwargs` ...
        conn_id: the id of the connection, for messages.

    Raises:
        UsageError: the connection has another type, or its role cannot be assumed here.
        TransientError: the service that grants keys for a role does not answer.
    """
    kind = (connection.conn_type or "").lower()
    if kind != TYPE:
        raise UsageError(
            f"connection {conn_id!r}: expected the type {TYPE}; found {kind or 'none'!r}"
        )
    extras = dict(connection.extra_dejson)
    s3_config = (extras.get("service_config") or {}).get("s3") or {}
    session = extras.get("session_kwargs") or {}
    parameters = {
        "endpoint": s3_config.get("endpoint_url") or extras.get("endpoint_url"),
        "region": extras.get("region_name") or session.get("region_name"),
        "path_style": _path_style(extras),
    }
    if any(extras.get(name) for name in ROLE_EXTRAS):
        return parameters | _role_keys(connection, conn_id)
    return parameters | {
        "access_key_id": connection.login or extras.get("aws_access_key_id"),
        "secret_access_key": connection.password or extras.get("aws_secret_access_key"),
        "session_token": extras.get("aws_session_token") or extras.get("session_token"),
        "profile": extras.get("profile_name") or session.get("profile_name"),
    }


def _path_style(extras: dict[str, Any]) -> str | None:
    """Return the parameter for botocore's style of addressing buckets; None if it is not set."""
    config = (extras.get("config_kwargs") or {}).get("s3") or {}
    return {"path": "true", "virtual": "false"}.get(config.get("addressing_style", ""))


def _role_keys(connection: Any, conn_id: str) -> dict[str, str | None]:
    """Return the keys of an assumed role, which expire with its session: by default in an hour."""
    try:
        import botocore.exceptions  # noqa: PLC0415
        from airflow.providers.amazon.aws.hooks.base_aws import (  # noqa: PLC0415 - not needed
            BaseSessionFactory,
        )
        from airflow.providers.amazon.aws.utils.connection_wrapper import (  # noqa: PLC0415
            AwsConnectionWrapper,
        )
    except ImportError:
        raise UsageError(
            f"connection {conn_id!r}: cannot assume its role (role_arn): {_NO_PROVIDER}"
        ) from None
    try:
        wrapped = AwsConnectionWrapper(conn=connection)
        session = BaseSessionFactory(conn=wrapped).create_session()
        keys = session.get_credentials().get_frozen_credentials()
    except Exception as error:
        # Log only its name: the message of an unknown error may contain part of the connection.
        message = f"connection {conn_id!r}: its role could not be assumed ({type(error).__name__})"
        transient = (botocore.exceptions.ConnectionError, botocore.exceptions.HTTPClientError)
        raise (TransientError if isinstance(error, transient) else UsageError)(message) from None
    return {
        "access_key_id": keys.access_key,
        "secret_access_key": keys.secret_key,
        "session_token": keys.token,
        "region": wrapped.region_name,
    }
