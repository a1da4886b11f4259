"""Parameters of an `s3://` URL from an Airflow connection of type `aws`."""

from __future__ import annotations

from typing import Any

from penstock import TransientError, UsageError

TYPE = "aws"
# Extras that make a connection assume a role.
ASSUMING = ("role_arn", "assume_role_method", "assume_role_kwargs", "external_id")
_NO_PROVIDER = (
    "install apache-airflow-providers-amazon on the workers to assume it, or set keys instead"
)


def parameters_of(connection: Any, conn_id: str) -> dict[str, str | None]:
    """Return keys, endpoint and region as parameters of an `s3://` URL. They hold secrets.

    If the connection has no keys, the machine that copies finds them: in a profile, in the
    environment, or in its instance metadata.

    Parameters:
        connection: an Airflow `Connection`. Login and password are the keys; the extras are those
            of Airflow's Amazon provider: `aws_session_token`, `endpoint_url`, `region_name`,
            `profile_name`, `role_arn`, `service_config`, `config_kwargs` ...

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
    of_s3 = (extras.get("service_config") or {}).get("s3") or {}
    session = extras.get("session_kwargs") or {}
    parameters = {
        "endpoint": of_s3.get("endpoint_url") or extras.get("endpoint_url"),
        "region": extras.get("region_name") or session.get("region_name"),
        "path_style": _path_style(extras),
    }
    if any(extras.get(name) for name in ASSUMING):
        return parameters | _assumed(connection, conn_id)
    return parameters | {
        "access_key_id": connection.login or extras.get("aws_access_key_id"),
        "secret_access_key": connection.password or extras.get("aws_secret_access_key"),
        "session_token": extras.get("aws_session_token") or extras.get("session_token"),
        "profile": extras.get("profile_name") or session.get("profile_name"),
    }


def _path_style(extras: dict[str, Any]) -> str | None:
    """Return how botocore's configuration addresses a bucket; None if it is not set."""
    config = (extras.get("config_kwargs") or {}).get("s3") or {}
    return {"path": "true", "virtual": "false"}.get(config.get("addressing_style", ""))


def _assumed(connection: Any, conn_id: str) -> dict[str, str | None]:
    """Return keys for a role, valid for the length of its session: an hour by default."""
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
            f"connection {conn_id!r}: found a role to assume (role_arn): {_NO_PROVIDER}"
        ) from None
    try:
        wrapped = AwsConnectionWrapper(conn=connection)
        session = BaseSessionFactory(conn=wrapped).create_session()
        keys = session.get_credentials().get_frozen_credentials()
    except Exception as error:
        # Log only its name: the message of an unknown error may contain part of the connection.
        message = f"connection {conn_id!r}: its role could not be assumed ({type(error).__name__})"
        away = (botocore.exceptions.ConnectionError, botocore.exceptions.HTTPClientError)
        raise (TransientError if isinstance(error, away) else UsageError)(message) from None
    return {
        "access_key_id": keys.access_key,
        "secret_access_key": keys.secret_key,
        "session_token": keys.token,
        "region": wrapped.region_name,
    }
