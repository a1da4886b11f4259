"""How errors of file systems, S3 and pyarrow map to Penstock's.

S3's codes: https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html. boto3 gives them
as they are; pyarrow tells them in the text of an `OSError`, by the names of the AWS SDK for C++:
``AWS Error SLOW_DOWN during GetObject operation: Please reduce your request rate.``
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from botocore import exceptions as boto

from penstock.errors import Diagnosis, PenstockError, PermanentError, TransientError
from penstock.model import values


class Broken(pa.ArrowInvalid):  # type: ignore[misc]
    """A defect of a file, described in full."""


# Codes in lower case without underscores, which makes both notations equal.
TRANSIENT_CODES = {
    "slowdown", "throttling", "throttlingexception", "throttled", "requestlimitexceeded",
    "toomanyrequests", "toomanyrequestsexception", "bandwidthlimitexceeded", "internalerror",
    "internalfailure", "serviceunavailable", "requesttimeout", "requesttimeoutexception",
    "networkconnection", "operationaborted", "conditionalrequestconflict", "expiredtoken",
    "unavailable", "reducerequestrate", "clientsigningfailure",
    "nosuchupload",  # our upload was ended by another process: the partition was done without it
}  # fmt: skip
PERMANENT_CODES = {"notimplemented"}
ADVICE = {
    "nosuchbucket": "the bucket does not exist",
    "nosuchkey": "the object does not exist",
    "resourcenotfound": "the bucket or object does not exist",
    "404": "the bucket or object does not exist",
    "accessdenied": "the credentials are wrong, or do not permit this",
    "403": "the credentials are wrong, or do not permit this",
    "invalidaccesskeyid": "the access key id is unknown",
    "invalidclienttokenid": "the access key id is unknown",
    "signaturedoesnotmatch": "the secret access key is wrong",
    "permanentredirect": "the bucket is in another region",
    "authorizationheadermalformed": "the bucket is in another region",
}
# Errors of a network or network file system that may not occur again.
TRANSIENT_ERRNO = {
    errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EHOSTDOWN, errno.EHOSTUNREACH,
    errno.ENETUNREACH, errno.ENETDOWN, errno.ECONNRESET, errno.ECONNREFUSED, errno.ECONNABORTED,
    errno.EPIPE, errno.EAGAIN, errno.EINTR, errno.EBUSY, errno.EMFILE, errno.ENFILE, errno.ENOMEM,
}  # fmt: skip
_AWS = re.compile(
    r"AWS Error (?P<code>\w+)(?: \(HTTP status (?P<status>\d+)\))? during (?P<action>\w+)"
    r"(?: operation)?(?:: (?P<words>.*))?",
    re.DOTALL,
)
_CURL = re.compile(r"curlCode: (\d+)")
# https://curl.se/libcurl/c/libcurl-errors.html: TLS errors recur.
_CURL_PERMANENT = {35, 51, 53, 54, 58, 59, 60, 66, 77, 80, 82, 83, 90, 91}
_PERMANENT_BOTO = (
    boto.NoCredentialsError,
    boto.PartialCredentialsError,
    boto.ProfileNotFound,
    boto.ParamValidationError,
    boto.SSLError,
    boto.InvalidRegionError,
    boto.NoRegionError,
    boto.ConfigParseError,
    boto.InvalidConfigError,
    boto.UnauthorizedSSOTokenError,
)
_TRANSIENT_BOTO = (
    boto.ConnectionError,
    boto.HTTPClientError,
    boto.IncompleteReadError,
    boto.CredentialRetrievalError,
    boto.MetadataRetrievalError,
)


def from_driver(error: Exception, side: str, subject: str, noun: str = "Parquet") -> PenstockError:
    """Classify an error as transient or permanent, and keep the server's diagnosis.

    Args:
        error: an error of the file system, botocore or pyarrow.
        side: `source` or `target`.
        subject: the file that was read or written.
        noun: the format of the file.
    """
    if isinstance(error, boto.ClientError):
        fields: Any = error.response.get("Error", {})
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        words = fields.get("Message", "")
        return _from_code(str(fields.get("Code", "")), status, words, side, subject)
    words = " ".join(str(error).split())
    if isinstance(error, boto.BotoCoreError):
        never = isinstance(error, _PERMANENT_BOTO)
        return _error_of(
            isinstance(error, _TRANSIENT_BOTO) and not never, f"{side}: {subject}: {words}", side
        )
    if isinstance(error, OSError) and (match := _AWS.search(str(error))):
        status = int(match["status"] or 0)
        words = " ".join((match["words"] or "").split())
        curl = _CURL.search(words)
        if curl and int(curl[1]) in _CURL_PERMANENT:
            return _error_of(False, f"{side}: {subject}: {words}", side, match["code"])
        return _from_code(match["code"], status, words, side, subject)
    if isinstance(error, pa.ArrowCancelled):
        return _error_of(True, f"{side}: {subject}: {words}", side)
    if isinstance(error, OSError) and error.errno is not None:
        return _error_of(error.errno in TRANSIENT_ERRNO, f"{side}: {subject}: {words}", side)
    if isinstance(error, Broken):
        return _error_of(False, f"{side}: {subject}: {words}", side)
    # Without a number or code, pyarrow cannot read the file's content.
    return _error_of(
        False, f"{side}: {subject}: cannot be read as {noun}: {values.server_message(words)}", side
    )


def _from_code(code: str, status: int, words: str, side: str, subject: str) -> PenstockError:
    plain = code.replace("_", "").lower()
    transient = (
        plain in TRANSIENT_CODES or status == 429 or status >= 500
    ) and plain not in PERMANENT_CODES
    # For a response without a body, as to HEAD, only the status is known.
    why = ADVICE.get(str(status) if plain in {"", "unknown"} else plain, "")
    shown = ", ".join(part for part in (code, f"status {status}" if status else "") if part)
    message = ": ".join(part for part in (side, subject, why, words) if part)
    return _error_of(transient, f"{message} ({shown})", side, code)


def _error_of(transient: bool, message: str, side: str, code: str = "") -> PenstockError:
    diagnosis = Diagnosis(side=side, detail=code)
    return (TransientError if transient else PermanentError)(message, diagnosis)


DRIVER_ERRORS = (OSError, pa.ArrowException, boto.BotoCoreError, boto.ClientError)
"""The exceptions that `translated` translates."""


@contextmanager
def translated(side: str, subject: str, noun: str = "Parquet") -> Iterator[None]:
    """Translate errors of file systems, botocore and pyarrow to Penstock's.

    Args:
        side: ``source`` or ``target``.
        subject: the file that is read or written, for the message.
        noun: the format of the file, for the message.

    Raises:
        TransientError, PermanentError: in place of the original errors.
    """
    try:
        yield
    except DRIVER_ERRORS as error:
        raise from_driver(error, side, subject, noun) from error
