"""Clients of file systems: pyarrow's to read data, boto3's for everything else on S3.

Both use the same credentials, which botocore looks up if the URL has none. boto3 is imported where
it is used, so that copies of local files need not wait for it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pyarrow import fs

from penstock.backends.parquet.errors import translated
from penstock.backends.parquet.location import FILE, S3, FilesLocation
from penstock.errors import PermanentError

if TYPE_CHECKING:
    import boto3
    from botocore.credentials import Credentials
    from mypy_boto3_s3 import S3Client

# Seconds. A request without an answer is retried by the SDK, then by the run.
CONNECT_TIMEOUT = 5
READ_TIMEOUT = 15
ATTEMPTS = 3


@cache
def _loader() -> Any:
    """Return service descriptions, which take longer to load than the rest of a client."""
    from botocore.loaders import create_loader  # noqa: PLC0415

    return create_loader()


def _session(location: FilesLocation) -> boto3.Session:
    import boto3  # noqa: PLC0415
    from botocore.session import get_session  # noqa: PLC0415

    core = get_session()
    core.register_component("data_loader", _loader())
    return boto3.Session(
        botocore_session=core,
        aws_access_key_id=location.access_key_id or None,
        aws_secret_access_key=location.secret_access_key or None,
        aws_session_token=location.session_token or None,
        region_name=location.region or None,
        profile_name=location.profile or None,
    )


def _credentials(session: boto3.Session, location: FilesLocation, side: str) -> Credentials:
    credentials = session.get_credentials()
    if credentials is None:
        raise PermanentError(
            f"{side}: {location}: expected S3 credentials: access_key_id and secret_access_key in "
            "the URL, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile, or those of the "
            "machine; found none"
        )
    return credentials


def s3_client(location: FilesLocation, side: str) -> S3Client:
    """Return a client with its own timeouts and retries. It can be used by many threads.

    Args:
        location: where the files are, with credentials if the URL has any.
        side: ``source`` or ``target``, for error messages.

    Raises:
        PermanentError: the profile does not exist, or there are no credentials.
    """
    from botocore.config import Config  # noqa: PLC0415

    with translated(side, str(location)):
        session = _session(location)
        _credentials(session, location, side)
        client = session.client(
            "s3",
            endpoint_url=location.endpoint or None,
            region_name=session.region_name or "us-east-1",
            config=Config(
                connect_timeout=CONNECT_TIMEOUT,
                read_timeout=READ_TIMEOUT,
                retries={"mode": "standard", "total_max_attempts": ATTEMPTS},
                s3={"addressing_style": "path" if location.path_style else "auto"},
                tcp_keepalive=True,
                max_pool_connections=32,
                # Servers other than AWS do not support the newer kinds of checksums.
                request_checksum_calculation="when_required",
                response_checksum_validation="when_required",
            ),
        )
    if location.endpoint:
        client.meta.events.register("before-parse.s3", _checker(location, side))
    return client


def _checker(location: FilesLocation, side: str) -> Callable[..., None]:
    """Return a check of every answer that runs before botocore's own handling.

    botocore takes any web server's answers for S3's: a page for an empty list, and a redirect for
    one to another region, which it follows forever.
    """

    def check(response_dict: Mapping[str, Any], operation_model: Any, **_: Any) -> None:
        status, headers = response_dict["status_code"], response_dict["headers"]
        kind = headers.get("content-type", "")
        if 300 <= status < 400 and "x-amz-bucket-region" not in headers:
            answer = "a redirect"
        elif status == 200 and operation_model.name == "ListObjectsV2" and "html" in kind:
            answer = "a web page instead of a list"
        elif status == 200 and operation_model.name == "GetObject" and "etag" not in headers:
            answer = f"{kind or 'an answer'} without an ETag instead of an object"
        else:
            return
        raise PermanentError(
            f"{side}: {location}: expected an S3 server at {location.endpoint}, found {answer} "
            f"(status {status}); check the port, and whether the endpoint needs https://"
        )

    return check


def file_system(location: FilesLocation, side: str) -> fs.FileSystem:
    """Return the file system for a location.

    Its credentials are the current ones: a file system used for hours must be recreated from time
    to time.

    Args:
        location: where the files are, with credentials if the URL has any.
        side: ``source`` or ``target``, for error messages.

    Raises:
        TransientError, PermanentError: as for `s3_client`.
    """
    if location.scheme == FILE:
        return fs.LocalFileSystem()
    with translated(side, str(location)):
        credentials = _credentials(_session(location), location, side).get_frozen_credentials()
        parts = urlsplit(location.endpoint)
        return fs.S3FileSystem(
            access_key=credentials.access_key,
            secret_key=credentials.secret_key,
            session_token=credentials.token,
            region=_region(location),
            scheme=parts.scheme or None,
            endpoint_override=parts.netloc or None,
            force_virtual_addressing=not location.path_style,
            connect_timeout=CONNECT_TIMEOUT,
            request_timeout=READ_TIMEOUT,
            retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=ATTEMPTS),
            tls_ca_file_path=os.environ.get("AWS_CA_BUNDLE"),
        )


def _region(location: FilesLocation) -> str:
    """Return the region of an AWS bucket: pyarrow does not follow redirects to it."""
    if not location.endpoint:
        with suppress(OSError):
            return str(fs.resolve_s3_region(location.bucket))
    # Other servers may not care, but the signature needs one.
    return location.region or "us-east-1"


def preload() -> None:
    """Read what every client needs, once for many workers. Connects to nothing."""
    s3_client(FilesLocation(S3, ("bucket",), access_key_id="-", secret_access_key="-"), "source")
