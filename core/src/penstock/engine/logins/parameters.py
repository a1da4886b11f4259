"""The parameters of a URL that no driver sees."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote

from penstock.errors import UsageError

COMMAND = "command:"
CLOUDS = ("aws-iam", "gcp-iam", "entra")


@dataclass(frozen=True, slots=True)
class Parameters:
    """The values of these parameters; empty without one."""

    auth: str = ""
    ssh: str = ""


def split_parameters(url: str, flag: str) -> tuple[str, Parameters]:
    """Return a URL without `auth` and `ssh`, and their values.

    Args:
        url: the URL, as the user wrote it.
        flag: the option, for the message.

    Raises:
        UsageError: one is given twice, or `auth` with a password.
    """
    if "auth=" not in url and "ssh=" not in url:
        return url, Parameters()
    place, _, query = url.partition("?")
    found: dict[str, list[str]] = {"auth": [], "ssh": []}
    others: list[str] = []
    for part in query.split("&"):
        name, _, written = part.partition("=")
        value = unquote(written)
        if name == "ssh" or (name == "auth" and (value in CLOUDS or value.startswith(COMMAND))):
            found[name].append(value)
        else:
            others.append(part)
    for name, values in found.items():
        if len(values) > 1:
            raise UsageError(f"{flag}: {name}: expected one value, found {len(values)}")
    auth, ssh = ("".join(values) for values in found.values())
    if not auth and not found["ssh"]:
        return url, Parameters()
    login = place.partition("://")[2].partition("/")[0].rpartition("@")[0]
    if auth and (":" in login or any(part.startswith("password=") for part in others)):
        raise UsageError(
            f"{flag}: found a password and auth={shown(auth)}, which fetches one; "
            "remove one of them"
        )
    if found["ssh"] and not ssh:
        raise UsageError(f"{flag}: ssh: expected user@bastion, found nothing")
    return place + ("?" + "&".join(others) if others else ""), Parameters(auth, ssh)


def check_known(url: str, flag: str) -> None:
    """Check that a split URL of a backend whose sessions log in by tokens has no `auth` left.

    Raises:
        UsageError: it has one, so its value is none that `split_parameters` knows.
    """
    if any(part.startswith("auth=") for part in url.partition("?")[2].split("&")):
        raise UsageError(
            f"{flag}: auth: expected one of {COMMAND}..., {', '.join(CLOUDS)}; found another value"
        )


def shown(auth: str) -> str:
    """Return what messages show of the value of `auth`: not a command."""
    return auth if auth in CLOUDS else COMMAND
