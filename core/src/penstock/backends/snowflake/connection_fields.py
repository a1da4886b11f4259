"""A stored connection's fields as a URL."""

from __future__ import annotations

from penstock.backends.api.connection_fields import ConnectionFields
from penstock.errors import UsageError

# Extras of Airflow's Snowflake hook that Penstock sets itself.
_NOT_OURS = frozenset(
    {"client_request_mfa_token", "client_store_temporary_credential", "insecure_mode"}
    | {"json_result_force_utf8_decoding", "ocsp_fail_open", "session_parameters"}
)
# Extras that request something Penstock does not support, and what to do instead.
_REFUSED = {
    **dict.fromkeys(
        ("azure_conn_id", "grant_type", "refresh_token", "scope", "token_endpoint"),
        "a token in the field Password, since Penstock does not request tokens",
    ),
    "private_key_content": "the path of a key file, as private_key_file in the field Extra",
    **dict.fromkeys(
        ("proxy_host", "proxy_port", "proxy_user", "proxy_password"),
        "the proxy in the workers' environment variable HTTPS_PROXY",
    ),
}
_AUTHENTICATORS = {
    "snowflake": "password",
    "externalbrowser": "browser",
    "snowflake_jwt": "key",
    "programmatic_access_token": "pat",
}


def url_of_fields(fields: ConnectionFields) -> str:
    """Return the URL for a connection's fields.

    Raises:
        UsageError: an extra requests something that Penstock does not support.
    """
    extra = {
        name.removeprefix("extra__snowflake__"): str(value)
        for name, value in fields.extra.items()
        if value not in (None, "", False)
    }
    for name, instead in _REFUSED.items():
        if name in extra:
            raise UsageError(f"expected {instead}; found {name} in the field Extra")
    account, region = extra.pop("account", fields.host), extra.pop("region", "")
    if region and "." not in account:
        account = f"{account}.{region}"
    port = extra.pop("port", fields.port)
    path = fields.schema
    if "database" in extra:
        path = f"{extra.pop('database')}/{path}".rstrip("/")
    if how := extra.pop("authenticator", "").lower():
        extra["authenticator"] = _AUTHENTICATORS.get(how, how)
    if "private_key_file" in extra:
        extra.pop("authenticator", "")  # the hook also prefers a key
    host = extra.pop("host", account)
    parameters = {name: text for name, text in extra.items() if name not in _NOT_OURS}
    return fields.url("snowflake", parameters, host=host, port=port, path=path)
