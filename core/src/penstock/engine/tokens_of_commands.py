"""Tokens that a command prints: `?auth=command:...`.

The process that resolves a URL runs the command, and gives the tokens to its own sessions and to
those of its workers through a socket that only its user can reach. So workers need no secret before
they connect, and a token that has expired is replaced wherever a session is opened again.
"""

from __future__ import annotations

import json
import os
import secrets
import shlex
import socket
import struct
import subprocess
import sys
import threading
import time
from datetime import datetime
from urllib.parse import quote, unquote

from penstock.backends.shared.tokens import (
    FAILED,
    FAILED_NOW,
    GIVEN,
    MARK,
    TakesTokens,
)
from penstock.errors import PenstockError, PermanentError, TransientError, UsageError

_NAME, _COMMAND = "auth=", "command:"
COMMAND_SECONDS = 30.0
"""How long a command may take; less than a session waits for its token."""
KEPT_SECONDS = 300.0
"""How long a token is used if its command does not state when it expires."""
_MARGIN = 30.0
# What a token and its expiry are called in the JSON of `az account get-access-token`, of OAuth,
# and of Kubernetes' ExecCredential.
_TOKENS = ("token", "accessToken", "access_token")
_EXPIRIES = ("expires_on", "expirationTimestamp")
_SHOWN = 2000
_PEER_SECONDS = 5.0
_CREDENTIALS = struct.Struct("3i")  # process, user, group


def split_command(url: str, flag: str) -> tuple[str, tuple[str, ...]]:
    """Return a URL without ``auth=command:...``, and the command's arguments; none without one.

    Args:
        url: the URL, as the user wrote it.
        flag: the option, for the message.

    Raises:
        UsageError: the command is empty or has an open quote, or there is a password as well.
    """
    place, _, query = url.partition("?")
    parameters = query.split("&")
    given = [
        value
        for name, value in (
            (part[: len(_NAME)], unquote(part[len(_NAME) :])) for part in parameters
        )
        if name == _NAME and value.startswith(_COMMAND)
    ]
    if not given:
        return url, ()
    try:
        command = tuple(shlex.split(given[0].removeprefix(_COMMAND)))
    except ValueError:
        command = ()
    if not command or len(given) > 1:
        raise UsageError(
            f"{flag}: auth=command: expected one command, such as auth=command:/opt/token%20shop, "
            "found none, several, or a quote that is not closed"
        )
    others = [part for part in parameters if not part.startswith(_NAME)]
    login = place.partition("://")[2].partition("/")[0].rpartition("@")[0]
    if ":" in login or any(part.startswith("password=") for part in others):
        raise UsageError(
            f"{flag}: found a password and auth=command:, which fetches one; remove one of them"
        )
    return place + ("?" + "&".join(others) if others else ""), command


def with_tokens(url: str, command: tuple[str, ...], backend: object, flag: str) -> str:
    """Return a URL whose password marks where sessions get their tokens.

    Args:
        url: the URL, without a password.
        command: the arguments of the command.
        backend: the URL's backend.
        flag: the option, for the message.

    Raises:
        UsageError: the backend's sessions do not log in by tokens, or the URL has no user.
    """
    scheme, _, rest = url.partition("://")
    if not isinstance(backend, TakesTokens):
        raise UsageError(f"{flag}: {scheme}:// does not support auth=command:")
    authority, slash, path = rest.partition("/")
    authority, question, query = authority.partition("?")
    user, at, host = authority.rpartition("@")
    if sys.platform != "linux":
        raise UsageError(f"{flag}: auth=command: is supported on Linux only")
    if not at:
        raise UsageError(
            f"{flag}: auth=command: expected a user in the URL, as in {scheme}://user@host"
        )
    mark = quote(f"{MARK}{_giver(command).name}", safe="")
    return f"{scheme}://{user}:{mark}@{host}{question}{query}{slash}{path}"


_givers: dict[tuple[int, tuple[str, ...]], TokenGiver] = {}
_making = threading.Lock()


def _giver(command: tuple[str, ...]) -> TokenGiver:
    """Return this process's giver of the tokens of a command."""
    key = (os.getpid(), command)  # a fork has no thread that answers
    with _making:
        if key not in _givers:
            _givers[key] = TokenGiver(command)
        return _givers[key]


class TokenGiver:
    """Runs a command when a session needs a token, and answers on a socket until the process ends.

    Args:
        command: the arguments of the command, which are passed on without a shell.
    """

    def __init__(self, command: tuple[str, ...]) -> None:
        self._command = command
        self._token = ""
        self._kept_until = 0.0
        # Linux's abstract names are no files, and vanish with the process, however it ends.
        self.name = f"penstock-{secrets.token_hex(16)}"
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(f"\0{self.name}")
        self._socket.listen(64)
        threading.Thread(target=self._answer_all, name="penstock-token", daemon=True).start()

    def _answer_all(self) -> None:
        while True:
            peer, _ = self._socket.accept()
            if _user_of(peer) != os.getuid():
                peer.close()
                continue
            try:
                answer = GIVEN + self.token().encode()
            except TransientError as error:
                answer = FAILED_NOW + error.message.encode()
            except PenstockError as error:
                answer = FAILED + error.message.encode()
            with peer:
                peer.settimeout(_PEER_SECONDS)
                try:
                    peer.sendall(answer)
                except OSError:
                    continue  # it has ended

    def token(self) -> str:
        """Return the current token.

        Raises:
            PermanentError: the command does not exist, or prints no token.
            TransientError: it failed, or took too long.
        """
        if time.time() >= self._kept_until:
            self._token, self._kept_until = _parsed(self._output(), self._name)
        return self._token

    @property
    def _name(self) -> str:
        return f"auth=command: {self._command[0]}"

    def _output(self) -> str:
        try:
            ended = subprocess.run(
                self._command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=COMMAND_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise TransientError(
                f"{self._name}: expected a token within {COMMAND_SECONDS:g} s"
            ) from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise PermanentError(f"{self._name}: cannot be run: {reason}") from None
        if ended.returncode:
            complaint = ended.stderr.decode(errors="replace").strip()[-_SHOWN:]
            raise TransientError(f"{self._name} ended with {ended.returncode}: {complaint}")
        try:
            return ended.stdout.decode().strip()
        except UnicodeDecodeError:
            raise PermanentError(f"{self._name}: expected a token in UTF-8") from None


def _user_of(peer: socket.socket) -> int:
    credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, user, _ = _CREDENTIALS.unpack(credentials)
    return int(user)


def _parsed(output: str, name: str) -> tuple[str, float]:
    """Return a token, and until when it is kept, in seconds since 1970.

    Raises:
        PermanentError: there is no token. The message does not show the output.
    """
    wrong = PermanentError(
        f"{name}: expected a token on one line, or JSON with one of {', '.join(_TOKENS)}, and with "
        f"{' or '.join(_EXPIRIES)} if it expires"
    )
    if not output.startswith("{"):
        if not output or len(output.splitlines()) > 1:
            raise wrong
        return output, time.time() + KEPT_SECONDS
    try:
        fields = json.loads(output)
        if isinstance(fields.get("status"), dict):
            fields = fields["status"]  # of Kubernetes' ExecCredential
        token = next(fields[key] for key in _TOKENS if fields.get(key))
        expiry = next((fields[key] for key in _EXPIRIES if fields.get(key)), None)
        expires = time.time() + KEPT_SECONDS + _MARGIN if expiry is None else _seconds(expiry)
    except (ValueError, OverflowError, StopIteration):
        raise wrong from None
    if not isinstance(token, str):
        raise wrong
    return token, expires - _MARGIN


def _seconds(expiry: object) -> float:
    if isinstance(expiry, (int, float)):
        return float(expiry)
    text = str(expiry)
    return float(text) if text.isdecimal() else datetime.fromisoformat(text).timestamp()
