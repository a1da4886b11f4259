"""Tokens as passwords: `?auth=...`.

The process that resolves a URL fetches the tokens, and gives them to its own sessions and to those
of its workers through a socket that only its user can reach. So workers need no secret before they
connect, and a token that has expired is replaced wherever a session is opened again.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from urllib.parse import quote, unquote

from penstock.backends.api.backend import Backend
from penstock.backends.shared.tokens import MARK, TakesTokens
from penstock.engine.logins.clouds import AwsTokens, EntraTokens, GoogleTokens
from penstock.engine.logins.commands import CommandTokens
from penstock.engine.logins.giver import Source, giver_of
from penstock.engine.logins.parameters import CLOUDS, COMMAND, shown
from penstock.errors import UsageError


def with_tokens(url: str, auth: str, backend: Backend, flag: str) -> str:
    """Return a URL whose password marks where sessions get their tokens.

    Args:
        url: the URL, without a password.
        auth: the value of `auth`.
        backend: the URL's backend.
        flag: the option, for the message.

    Raises:
        UsageError: the backend's sessions do not log in by tokens, the URL lacks a user or what a
            token is for, or the library that fetches tokens is not installed.
    """
    scheme, _, rest = url.partition("://")
    name = f"auth={shown(auth)}"
    if not isinstance(backend, TakesTokens):
        raise UsageError(f"{flag}: {scheme}:// does not support {name}")
    authority, slash, path = rest.partition("/")
    authority, question, query = authority.partition("?")
    user, at, host = authority.rpartition("@")
    if sys.platform != "linux":
        raise UsageError(f"{flag}: {name} is supported on Linux only")
    if not at:
        raise UsageError(f"{flag}: {name}: expected a user in the URL, as in {scheme}://user@host")
    source = _source(url, auth, unquote(user), backend, flag)
    mark = quote(f"{MARK}{giver_of(source).name}", safe="")
    return f"{scheme}://{user}:{mark}@{host}{question}{query}{slash}{path}"


def _source(url: str, auth: str, user: str, backend: Backend, flag: str) -> Source:
    if auth == "aws-iam":
        place = backend.place(url)
        assert place.port is not None  # of a server
        return AwsTokens.found(place.host, place.port, user, flag)
    if auth == "gcp-iam":
        return GoogleTokens.found(flag)
    if auth == "entra":
        return EntraTokens.found(flag)
    try:
        command = tuple(shlex.split(auth.removeprefix(COMMAND)))
    except ValueError:
        command = ()
    if not command:
        raise UsageError(
            f"{flag}: auth=command: expected one command, such as auth=command:/opt/token%20shop, "
            "found none, or a quote that is not closed"
        )
    return CommandTokens(command)


def check_private(
    url: str, auth: str, backend: Backend, environ: Mapping[str, str], flag: str
) -> None:
    """Check that a cloud's token, which sessions send as it is, is sent to the server alone.

    Args:
        url: the resolved URL.
        auth: the value of `auth`.
        backend: the URL's backend.
        environ: the environment.
        flag: the option, for the message.

    Raises:
        UsageError: the sessions might not be encrypted.
    """
    if auth not in CLOUDS or not isinstance(backend, TakesTokens):
        return
    if not backend.is_private(url, environ):
        raise UsageError(
            f"{flag}: auth={auth}: expected a URL that requires TLS, since anyone who reads the "
            f"token can log in by it: add {backend.private_parameter}"
        )
