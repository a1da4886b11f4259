"""Tokens of the clouds' own logins, through their own libraries.

Each library finds who this process is: by variables, files, or the machine that it runs on. It
looks again for each token, so a login that was renewed in between counts.
"""

from __future__ import annotations

import logging
import re
import time
from calendar import timegm
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from penstock.backends.api.installation import install_command
from penstock.engine.logins.giver import MARGIN
from penstock.errors import PermanentError, TransientError, UsageError

GOOGLE_SCOPE = "https://www.googleapis.com/auth/sqlservice.login"
ENTRA_SCOPE = "https://ossrdbms-aad.database.windows.net/.default"
# A token of RDS is valid for 15 minutes, but not longer than the keys that signed it; botocore
# replaces temporary ones 10 minutes before they expire. To sign another token is local work.
AWS_SECONDS = 600.0
_REGION = re.compile(r"\.([a-z0-9-]+)\.rds\.amazonaws\.com(\.cn)?$")
_SHOWN = 2000


def _import(module: str, auth: str, extra: str, flag: str) -> Any:
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise UsageError(
            f"{flag}: auth={auth} needs the module {error.name!r}; "
            f"install it with: {install_command(extra)}"
        ) from error


def _words(error: Exception) -> str:
    """Return a library's message on one line."""
    # Google's errors have the answer as a second argument.
    text = error.args[0] if error.args else error
    words = " ".join(str(text).split())[:_SHOWN] or type(error).__name__
    return words if words.endswith(".") else f"{words}."


@contextmanager
def _asking(auth: str, no_identity: tuple[type[Exception], ...], advice: str) -> Iterator[None]:
    """Translate a library's errors.

    Args:
        auth: the value of `auth`.
        no_identity: the library's errors for a process that has no identity.
        advice: what to do then.

    Raises:
        PermanentError: the library has not found it.
        TransientError: the cloud does not answer, or refuses.
    """
    try:
        yield
    except no_identity as error:
        raise PermanentError(f"auth={auth}: {_words(error)} {advice}") from None
    # Libraries raise errors of others, too: of HTTP, of JSON, of files.
    except Exception as error:
        raise TransientError(f"auth={auth}: no token: {_words(error)} {advice}") from None


@dataclass(frozen=True)
class AwsTokens:
    """Tokens of AWS for one user of one server in RDS or Aurora."""

    host: str
    port: int
    user: str
    region: str

    @classmethod
    def found(cls, host: str, port: int, user: str, flag: str) -> AwsTokens:
        """Return the tokens for a login.

        Args:
            host: the server's own name, which the token names.
            port: the server's port.
            user: the database's user.
            flag: the option, for the message.

        Raises:
            UsageError: botocore is not installed, or the region is not known.
        """
        session = _import("botocore.session", "aws-iam", "aws", flag)
        if match := _REGION.search(host):
            return cls(host, port, user, match[1])
        region = session.get_session().get_config_variable("region")
        if not region:
            raise UsageError(
                f"{flag}: auth=aws-iam: expected the endpoint of a server in RDS as the host, "
                "NAME.REGION.rds.amazonaws.com, or its region in AWS_DEFAULT_REGION"
            )
        return cls(host, port, user, region)

    def fetch(self) -> tuple[str, float]:
        """Return a new token, and until when it is kept.

        Raises:
            PermanentError: AWS's own configuration is missing or wrong.
            TransientError: a service that gives keys does not answer, or refuses.
        """
        from botocore import exceptions  # noqa: PLC0415 - an extra
        from botocore.session import get_session  # noqa: PLC0415

        no_identity = (
            exceptions.NoCredentialsError,
            exceptions.PartialCredentialsError,
            exceptions.ProfileNotFound,
            exceptions.ConfigParseError,
        )
        advice = (
            "Give AWS's own configuration an identity that may rds-db:connect as "
            f"{self.user}: a role of this machine, AWS_PROFILE, or `aws sso login`."
        )
        with _asking("aws-iam", no_identity, advice):
            client: Any = get_session().create_client("rds", region_name=self.region)
            token = client.generate_db_auth_token(
                DBHostname=self.host, Port=self.port, DBUsername=self.user, Region=self.region
            )
        return str(token), time.time() + AWS_SECONDS


@dataclass(frozen=True)
class GoogleTokens:
    """Tokens of Google Cloud for Cloud SQL."""

    @classmethod
    def found(cls, flag: str) -> GoogleTokens:
        """Return the tokens of this process's identity.

        Args:
            flag: the option, for the message.

        Raises:
            UsageError: google-auth is not installed.
        """
        _import("google.auth.transport.requests", "gcp-iam", "gcp", flag)
        return cls()

    def fetch(self) -> tuple[str, float]:
        """Return a new token, and until when it is kept.

        Raises:
            PermanentError: there are no application default credentials.
            TransientError: Google does not answer, or refuses.
        """
        import google.auth  # noqa: PLC0415 - an extra
        from google.auth.exceptions import DefaultCredentialsError  # noqa: PLC0415
        from google.auth.transport.requests import Request  # noqa: PLC0415

        advice = (
            "Give the application default credentials an identity with the role Cloud SQL Instance "
            "User: a service account of this machine, GOOGLE_APPLICATION_CREDENTIALS, or `gcloud "
            "auth application-default login`."
        )
        with _asking("gcp-iam", (DefaultCredentialsError,), advice):
            credentials: Any
            credentials, _ = google.auth.default(scopes=[GOOGLE_SCOPE])
            credentials.refresh(Request())
            expiry = credentials.expiry  # in UTC, without a zone
            expires = time.time() if expiry is None else timegm(expiry.utctimetuple())
            return str(credentials.token), expires - MARGIN


@dataclass(frozen=True)
class EntraTokens:
    """Tokens of Microsoft Entra for Azure's databases."""

    @classmethod
    def found(cls, flag: str) -> EntraTokens:
        """Return the tokens of this process's identity.

        Args:
            flag: the option, for the message.

        Raises:
            UsageError: azure-identity is not installed.
        """
        _import("azure.identity", "entra", "azure", flag)
        # Its warnings repeat the error, and would go to standard error without a handler.
        if not (log := logging.getLogger("azure.identity")).handlers:
            log.addHandler(logging.NullHandler())
        return cls()

    def fetch(self) -> tuple[str, float]:
        """Return a token, and until when it is kept.

        Raises:
            TransientError: there is no identity, or Entra does not answer, or refuses. The library
                does not tell these apart.
        """
        from azure.identity import DefaultAzureCredential  # noqa: PLC0415 - an extra

        advice = (
            "Give azure-identity an identity that is a user of the database: a managed identity of "
            "this machine (AZURE_CLIENT_ID names one of several), AZURE_TENANT_ID, AZURE_CLIENT_ID "
            "and AZURE_CLIENT_SECRET, or `az login`."
        )
        with _asking("entra", (), advice):
            token = DefaultAzureCredential().get_token(ENTRA_SCOPE)
        return token.token, token.expires_on - MARGIN
