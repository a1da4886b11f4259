"""The socket on which this process gives its sessions and workers what they need to connect."""

from __future__ import annotations

import os
import secrets
import socket
import struct
import threading
import time
from typing import Any, Generic, Protocol, TypeVar

from penstock.backends.shared.tokens import FAILED, FAILED_NOW, GIVEN
from penstock.errors import PenstockError, TransientError

MARGIN = 30.0
"""How long before a token expires it is renewed, in seconds."""
_PEER_SECONDS = 5.0
_CREDENTIALS = struct.Struct("3i")  # process, user, group


class Source(Protocol):
    """Where a text comes from. Equal sources share a giver."""

    def fetch(self) -> tuple[str, float]:
        """Return a text, and until when it is kept, in seconds since 1970.

        Raises:
            PenstockError: there is none; the message says why, and what to do.
        """
        ...


S = TypeVar("S", bound=Source)

_givers: dict[tuple[int, Source], Giver[Any]] = {}
_making = threading.Lock()


def giver_of(source: S) -> Giver[S]:
    """Return this process's giver of what a source has."""
    key = (os.getpid(), source)  # a fork has no thread that answers
    with _making:
        if key not in _givers:
            _givers[key] = Giver(source)
        return _givers[key]


class Giver(Generic[S]):
    """Asks a source when a session needs a text, and answers on a socket until the process ends.

    Args:
        source: the source.
    """

    def __init__(self, source: S) -> None:
        self.source = source
        self._text = ""
        self._kept_until = 0.0
        # Linux's abstract names are no files, and vanish with the process, however it ends.
        self.name = f"penstock-{secrets.token_hex(16)}"
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(f"\0{self.name}")
        self._socket.listen(64)
        threading.Thread(target=self._answer_all, name="penstock-giver", daemon=True).start()

    def _answer_all(self) -> None:
        while True:
            peer, _ = self._socket.accept()
            if _user_of(peer) != os.getuid():
                peer.close()
                continue
            try:
                answer = GIVEN + self._current().encode()
            except TransientError as error:
                answer = FAILED_NOW + error.message.encode()
            except PenstockError as error:
                answer = FAILED + error.message.encode()
            except Exception as error:  # others still need an answer; the text may be secret
                answer = FAILED_NOW + f"no answer, because of a {type(error).__name__}".encode()
            with peer:
                peer.settimeout(_PEER_SECONDS)
                try:
                    peer.sendall(answer)
                except OSError:
                    continue  # it has ended

    def _current(self) -> str:
        if time.time() >= self._kept_until:
            self._text, self._kept_until = self.source.fetch()
        return self._text


def _user_of(peer: socket.socket) -> int:
    credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, user, _ = _CREDENTIALS.unpack(credentials)
    return int(user)
