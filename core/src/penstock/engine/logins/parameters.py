"""The parameters of a URL that no driver sees."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote

from penstock.errors import UsageError

COMMAND = "command:"
CLOUDS = ("aws-iam", "gcp-iam", "entra")
_AUTH = "auth="


@dataclass(frozen=True, slots=True)
class Parameters:
    """The values of these parameters; empty without one."""

    auth: str = ""


def split_parameters(url: str, flag: str) -> tuple[str, Parameters]:
    """Return a URL without `auth`, and its value.

    Args:
        url: the URL, as the user wrote it.
        flag: the option, for the message.

    Raises:
        UsageError: `auth` is given twice, or with a password.
    """
    place, _, query = url.partition("?")
    auths: list[str] = []
    others: list[str] = []
    for part in query.split("&"):
        value = unquote(part.removeprefix(_AUTH))
        known = value in CLOUDS or value.startswith(COMMAND)
        (auths if part.startswith(_AUTH) and known else others).append(part)
    if not auths:
        return url, Parameters()
    if len(auths) > 1:
        raise UsageError(f"{flag}: auth: expected one value, found {len(auths)}")
    auth = unquote(auths[0].removeprefix(_AUTH))
    login = place.partition("://")[2].partition("/")[0].rpartition("@")[0]
    if ":" in login or any(part.startswith("password=") for part in others):
        raise UsageError(
            f"{flag}: found a password and auth={shown(auth)}, which fetches one; "
            "remove one of them"
        )
    return place + ("?" + "&".join(others) if others else ""), Parameters(auth)


def shown(auth: str) -> str:
    """Return what messages show of the value of `auth`: not a command."""
    return auth if auth in CLOUDS else COMMAND
