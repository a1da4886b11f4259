"""From an Airflow connection of type `aws` to the parameters of an `s3://` URL."""

from __future__ import annotations

from typing import Any

from penstock import TransientError, UsageError

TYPE = "aws"
# Extras by which a connection assumes a role.
ASSUMING = ("role_arn", "assume_role_method", "assume_role_kwargs", "external_id")
_NO_PROVIDER = (
    "install apache-airflow-providers-amazon on the workers to assume it, or set keys instead"
)


def parameters_of(connection: Any, conn_id: str) -> dict[str, str | None]:
    """Keys, endpoint and region, as parameters of an `s3://` URL. Holds secrets.

    If a connection has no keys, they are found where the copy runs: in a profile, in the
    environment, or from the machine.

    Parameters:
        connection: an Airflow `Connection`. Login and password are the keys; the extras are those
            of Airflow's Amazon provider: `aws_session_token`, `endpoint_url`, `region_name`,
            `profile_name`, `role_arn`, `service_config`, `config_kwargs` ...

    Raises:
        UsageError: another type of connection, or a role that cannot be assumed here.
        TransientError: the service that grants a role its keys does not answer.
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
    """How a bucket is addressed, from botocore's own configuration; None: not set."""
    config = (extras.get("config_kwargs") or {}).get("s3") or {}
    return {"path": "true", "virtual": "false"}.get(config.get("addressing_style", ""))


def _assumed(connection: Any, conn_id: str) -> dict[str, str | None]:
    """The keys of a role, for as long as its session lasts: an hour by default."""
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
        # Its name only: the message of an unknown error may contain part of the connection.
        message = f"connection {conn_id!r}: its role could not be assumed ({type(error).__name__})"
        away = (botocore.exceptions.ConnectionError, botocore.exceptions.HTTPClientError)
        raise (TransientError if isinstance(error, away) else UsageError)(message) from None
    return {
        "access_key_id": keys.access_key,
        "secret_access_key": keys.secret_key,
        "session_token": keys.token,
        "region": wrapped.region_name,
    }
