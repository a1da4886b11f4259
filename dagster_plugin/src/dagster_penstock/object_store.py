"""The keys of a Dagster S3 resource, as parameters of `s3://` URLs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from penstock import CopySpec, UsageError, place_of, with_parameters

_S3 = "s3"
# Parameters of a URL by the fields of `dagster_aws.s3.S3Resource`.
FIELDS = {
    "access_key_id": "aws_access_key_id",
    "secret_access_key": "aws_secret_access_key",
    "session_token": "aws_session_token",
    "endpoint": "endpoint_url",
    "region": "region_name",
    "profile": "profile_name",
}


def with_keys(spec: CopySpec, s3: Any) -> CopySpec:
    """Return the copy with keys added to its ends on S3. The result holds secrets.

    Parameters:
        s3: an object with the fields of `dagster_aws.s3.S3Resource`; None if the machine that runs
            the step finds the keys.

    Raises:
        UsageError: the resource does not sign its requests.
    """
    if s3 is None:
        return spec
    if getattr(s3, "use_unsigned_session", False):
        raise UsageError(
            "s3: expected a resource with keys, or with a profile; found "
            "use_unsigned_session, which Penstock does not support"
        )
    parameters = {name: getattr(s3, field, None) for name, field in FIELDS.items()}

    def add_keys(url: str) -> str:
        return with_parameters(url, parameters) if place_of(url).scheme == _S3 else url

    return replace(spec, source=add_keys(spec.source), target=add_keys(spec.target))
