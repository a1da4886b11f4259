"""Tokens that a command prints: `?auth=command:...`."""

from __future__ import annotations

import json
import subprocess
import time
from dataclasses import dataclass
from datetime import datetime

from penstock.engine.logins.giver import MARGIN
from penstock.errors import PermanentError, TransientError

COMMAND_SECONDS = 30.0
"""How long a command may take; less than a session waits for its token."""
KEPT_SECONDS = 300.0
"""How long a token is used if its command does not state when it expires."""
# What a token and its expiry are called in the JSON of `az account get-access-token`, of OAuth,
# and of Kubernetes' ExecCredential.
_TOKENS = ("token", "accessToken", "access_token")
_EXPIRIES = ("expires_on", "expirationTimestamp")
_SHOWN = 2000


@dataclass(frozen=True)
class CommandTokens:
    """The tokens of a command, which is run without a shell."""

    command: tuple[str, ...]

    def fetch(self) -> tuple[str, float]:
        """Return the command's token, and until when it is kept.

        Raises:
            PermanentError: the command does not exist, or prints no token.
            TransientError: it failed, or took too long.
        """
        return _parsed(self._output(), self._name)

    @property
    def _name(self) -> str:
        return f"auth=command: {self.command[0]}"

    def _output(self) -> str:
        try:
            ended = subprocess.run(
                self.command,
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
        expires = time.time() + KEPT_SECONDS + MARGIN if expiry is None else _seconds(expiry)
    except (ValueError, OverflowError, StopIteration):
        raise wrong from None
    if not isinstance(token, str):
        raise wrong
    return token, expires - MARGIN


def _seconds(expiry: object) -> float:
    if isinstance(expiry, (int, float)):
        return float(expiry)
    text = str(expiry)
    return float(text) if text.isdecimal() else datetime.fromisoformat(text).timestamp()
