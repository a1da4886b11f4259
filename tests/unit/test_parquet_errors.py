"""The classification of errors of S3, file systems and pyarrow, by their contents."""

from __future__ import annotations

import errno
import os

import pyarrow as pa
import pytest
from botocore import exceptions as boto

from penstock.backends.parquet.errors import from_driver, translated
from penstock.errors import PermanentError, TransientError

# Texts of pyarrow 26 with a server that gave these answers.
TEXTS = [
    ("AWS Error SLOW_DOWN during GetObject operation: Please reduce your request rate.", True),
    ("AWS Error UNKNOWN (HTTP status 503) during HeadObject operation: No response body.", True),
    ("AWS Error INTERNAL_FAILURE during GetObject operation: try again", True),
    (
        "AWS Error NETWORK_CONNECTION during HeadObject operation: curlCode: 7, Could not connect "
        "to server; Details: Failed to connect to 127.0.0.1:1 after 0 ms: Could not connect",
        True,
    ),
    (
        "AWS Error NETWORK_CONNECTION during HeadObject operation: curlCode: 28, Timeout was "
        "reached; Details: Operation too slow. Less than 1 bytes/sec transferred the last 30 s",
        True,
    ),
    (
        "AWS Error NETWORK_CONNECTION during HeadObject operation: curlCode: 35, SSL connect "
        "error; Details: TLS connect error: error:0A00010B:SSL routines::wrong version number",
        False,
    ),
    ("AWS Error EXPIRED_TOKEN during GetObject operation: The provided token has expired.", True),
    ("AWS Error ACCESS_DENIED during HeadObject operation: No response body.", False),
    ("AWS Error INVALID_ACCESS_KEY_ID during GetObject operation: no such key", False),
    ("AWS Error SIGNATURE_DOES_NOT_MATCH during GetObject operation: no", False),
    ("AWS Error NO_SUCH_BUCKET during ListObjectsV2 operation: no", False),
    ("AWS Error UNKNOWN (HTTP status 301) during HeadObject operation: No response body.", False),
    ("AWS Error UNKNOWN (HTTP status 403) during HeadObject operation: No response body.", False),
]


@pytest.mark.parametrize(("text", "transient"), TEXTS)
def test_s3_errors_of_pyarrow_are_classified_by_text(text: str, transient: bool) -> None:
    message = OSError(f"When reading information for key 'x' in bucket 'b': {text}")
    ours = from_driver(message, "source", "b/x")
    assert isinstance(ours, TransientError if transient else PermanentError)
    assert ours.message.startswith("source: b/x: ")
    assert ours.diagnosis.side == "source"


@pytest.mark.parametrize(
    ("code", "status", "transient"),
    [
        ("SlowDown", 503, True),
        ("ServiceUnavailable", 503, True),
        ("InternalError", 500, True),
        ("Whatever", 502, True),
        ("TooManyRequests", 429, True),
        ("RequestTimeout", 400, True),
        ("ExpiredToken", 400, True),
        ("ConditionalRequestConflict", 409, True),
        ("NoSuchBucket", 404, False),
        ("AccessDenied", 403, False),
        ("InvalidAccessKeyId", 403, False),
        ("SignatureDoesNotMatch", 403, False),
        ("NotImplemented", 501, False),
        ("404", 404, False),
    ],
)
def test_errors_of_boto_are_classified_by_code(code: str, status: int, transient: bool) -> None:
    error = boto.ClientError(
        {
            "Error": {"Code": code, "Message": "words"},
            "ResponseMetadata": {
                "HTTPStatusCode": status,
                "RequestId": "",
                "HostId": "",
                "HTTPHeaders": {},
                "RetryAttempts": 0,
            },
        },
        "GetObject",
    )
    ours = from_driver(error, "target", "b/x")
    assert isinstance(ours, TransientError if transient else PermanentError)
    assert code in ours.message
    assert "words" in ours.message


@pytest.mark.parametrize(
    ("error", "transient"),
    [
        (boto.EndpointConnectionError(endpoint_url="http://x", error="refused"), True),
        (boto.ConnectTimeoutError(endpoint_url="http://x"), True),
        (boto.ReadTimeoutError(endpoint_url="http://x"), True),
        (boto.ConnectionClosedError(endpoint_url="http://x"), True),
        (boto.IncompleteReadError(actual_bytes=1, expected_bytes=2), True),
        (boto.CredentialRetrievalError(provider="p", error_msg="later"), True),
        (boto.SSLError(endpoint_url="http://x", error=OSError("certificate")), False),
        (boto.NoCredentialsError(), False),
        (boto.ProfileNotFound(profile="p"), False),
        (boto.PartialCredentialsError(provider="p", cred_var="v"), False),
    ],
)
def test_errors_of_boto_without_an_answer_are_transient(
    error: boto.BotoCoreError, transient: bool
) -> None:
    ours = from_driver(error, "source", "b/x")
    assert isinstance(ours, TransientError if transient else PermanentError)


@pytest.mark.parametrize(
    ("number", "transient"),
    [(errno.EIO, True), (errno.ESTALE, True), (errno.ENOSPC, False), (errno.EACCES, False)],
)
def test_errors_of_the_system_are_classified_by_number(number: int, transient: bool) -> None:
    ours = from_driver(OSError(number, os.strerror(number)), "source", "/x")
    assert isinstance(ours, TransientError if transient else PermanentError)


@pytest.mark.parametrize(
    "error",
    [
        pa.ArrowInvalid("Parquet magic bytes not found in footer."),
        OSError("Couldn't deserialize thrift: TProtocolException: Invalid data"),
    ],
)
def test_a_file_that_is_not_parquet_is_named(error: Exception) -> None:
    words = r"source: b/x: cannot be read as Parquet: "
    with pytest.raises(PermanentError, match=words), translated("source", "b/x"):
        raise error


def test_a_bug_is_not_mistaken_for_an_error_of_the_file_system() -> None:
    with pytest.raises(KeyError), translated("source", "b/x"):
        raise KeyError("x")
