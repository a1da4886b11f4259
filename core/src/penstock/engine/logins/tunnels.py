"""Tunnels through the system's ssh: `?ssh=user@bastion`.

One ssh per bastion and server carries the sessions of this process and of all its workers, which
ask for its entrance as they connect. It is started when the first one asks, and again after it has
ended. It ends with this process, even by SIGKILL.
"""

from __future__ import annotations

import logging
import os
import re
import select
import shutil
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field

from penstock.backends.api.backend import Backend
from penstock.backends.shared.tunnels import MARK, TakesTunnels
from penstock.engine.logins.giver import giver_of
from penstock.errors import PermanentError, TransientError, UsageError

READY_SECONDS = 45.0
"""How long ssh may take to log in; less than a session waits for the tunnel."""
_HOST = "127.0.0.1"
_READY = b"penstock-tunnel-is-open"
_ATTEMPTS = 5
_SHOWN = 2000
# Nothing that a shell would interpret: ssh's own configuration may pass these on to one.
_BASTION = re.compile(
    r"(?:(?P<user>\w[\w.+-]*)@)?"
    r"(?:(?P<name>[A-Za-z0-9_][\w.-]*)|\[(?P<address>[0-9A-Fa-f:.]+(?:%\w+)?)\])"
    r"(?::(?P<port>[0-9]{1,5}))?",
    re.ASCII,
)
# The kernel ends the child with the thread that started it, which is the giver's: it lasts as long
# as this process. Set in the child, before ssh takes its place: a function of ours between fork and
# exec may hang in a process with threads.
_LAUNCH = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[2:])
"""
# How the user checks hosts and logs in is ssh's own configuration. A user's own master
# (ControlPath) would outlive us, or end before us; a LocalCommand says when the tunnel is open.
_OPTIONS = (
    *("-N", "-T", "-a", "-x", "-S", "none"),
    *("-o", "BatchMode=yes"),
    *("-o", "ConnectTimeout=20"),
    *("-o", "ExitOnForwardFailure=yes"),
    *("-o", "ForkAfterAuthentication=no"),
    *("-o", "ServerAliveInterval=15"),
    *("-o", "ServerAliveCountMax=3"),
    *("-o", "PermitLocalCommand=yes"),
    *("-o", f"LocalCommand=echo {_READY.decode()}"),
)
_OF_A_SESSION = "channel "
# ssh says why a session failed, then ends it; its words may take a moment to get here. In seconds.
_RECENT, _LOOKS, _LOOK_SECONDS = 5.0, 10, 0.02
_PORT_TAKEN = "Address already in use"
_PERMANENT = {
    "Host key verification failed": (
        "Compare the host's key with what its administrator says, and let ssh know it: `ssh {0}` "
        "asks once, and notes it in known_hosts."
    ),
    "Permission denied": (
        "ssh must log in without asking: try `ssh -o BatchMode=yes {0} true`; load the key into an "
        "agent (ssh-add), or name it in ~/.ssh/config."
    ),
    "Bad configuration option": "Correct ssh's configuration.",
    "Bad owner or permissions": "Correct the permissions of ssh's configuration.",
}

_log = logging.getLogger("penstock")


@dataclass(slots=True)
class _Master:
    """The running ssh."""

    process: subprocess.Popen[bytes] | None = None
    port: int = 0
    said: str = ""
    """What it has said about a session, last."""
    said_at: float = 0.0


@dataclass(frozen=True, slots=True)
class SshTunnel:
    """A tunnel to a server, which the bastion reaches by a host and a port.

    A source whose text is the entrance of the tunnel.
    """

    user: str
    bastion: str
    bastion_port: str
    host: str
    port: int
    _master: _Master = field(default_factory=_Master, compare=False, repr=False)

    @property
    def shown(self) -> str:
        """The bastion as arguments of ssh."""
        port = f"-p {self.bastion_port} " if self.bastion_port else ""
        return f"{port}{self.user}{'@' if self.user else ''}{self.bastion}"

    def fetch(self) -> tuple[str, float]:
        """Return where the tunnel begins, for one session; open it if there is none.

        Raises:
            PermanentError: ssh is not installed, does not know the host's key, or may not log in.
            TransientError: ssh cannot reach the bastion, or takes too long.
        """
        running = self._master.process
        if running is None or running.poll() is not None:
            self._open()
        return f"{_HOST}:{self._master.port}", 0.0

    def _open(self) -> None:
        program = shutil.which("ssh")
        if program is None:
            raise PermanentError(f"ssh {self.shown}: ssh is not installed on this machine")
        for _ in range(_ATTEMPTS):
            port = _free_port()
            process, said = self._start(program, port)
            if process.poll() is None:
                self._master.process, self._master.port = process, port
                return
            if _PORT_TAKEN not in said:
                break  # else another process was faster
        message = f"ssh {self.shown}: {said or f'ended with {process.returncode}'}"
        for words, advice in _PERMANENT.items():
            if words in said:
                raise PermanentError(f"{message} {advice.format(self.shown)}")
        raise TransientError(message)

    def _start(self, program: str, port: int) -> tuple[subprocess.Popen[bytes], str]:
        """Start ssh, and wait until the tunnel is open.

        Returns:
            The process, which has ended if there is no tunnel, and what it has said so far.
        """
        host = f"[{self.host}]" if ":" in self.host else self.host
        argv = [program, *_OPTIONS, "-L", f"{_HOST}:{port}:{host}:{self.port}"]
        argv += ["-p", self.bastion_port] if self.bastion_port else []
        argv += ["-l", self.user] if self.user else []
        process = subprocess.Popen(
            [
                sys.executable,
                "-I",
                "-S",
                "-c",
                _LAUNCH,
                str(os.getpid()),
                *argv,
                "--",
                self.bastion,
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for us, who end our sessions first
        )
        said: list[str] = []
        opened = threading.Event()
        listener = threading.Thread(
            target=self._listen, args=(process, said, opened), name="penstock-ssh", daemon=True
        )
        listener.start()
        if _is_ready(process):
            opened.set()
        else:
            if process.poll() is None:
                process.kill()
                said.append(f"no tunnel within {READY_SECONDS:g} s")
            process.wait()
            listener.join(1)
        return process, " ".join(said)[-_SHOWN:]

    def _listen(
        self, process: subprocess.Popen[bytes], said: list[str], opened: threading.Event
    ) -> None:
        """Keep what ssh says before the tunnel is open, and then what it says about sessions."""
        assert process.stderr is not None
        with process.stderr as lines:
            for line in lines:
                text = line.decode(errors="replace").strip(" \r\n@")
                if not opened.is_set():
                    said.extend([text] if text else [])
                elif text.startswith(_OF_A_SESSION):
                    self._master.said, self._master.said_at = text, time.monotonic()
                else:
                    _log.warning("ssh %s: %s", self.shown, text)
        process.wait()

    def said(self) -> str:
        """Return what ssh has said about a session in the last seconds; empty if nothing."""
        for _ in range(_LOOKS):
            if time.monotonic() - self._master.said_at < _RECENT:
                return f"ssh {self.shown}: {self._master.said}"
            time.sleep(_LOOK_SECONDS)
        return ""


@dataclass(frozen=True, slots=True)
class SaidBySsh:
    """A source whose text is what a tunnel's ssh has just said about a session."""

    tunnel: SshTunnel

    def fetch(self) -> tuple[str, float]:
        """Return the text, for one session."""
        return self.tunnel.said(), 0.0


def _is_ready(process: subprocess.Popen[bytes]) -> bool:
    """Wait until ssh's local command tells that the tunnel is open, or ssh has ended."""
    assert process.stdout is not None
    told, until = b"", time.monotonic() + READY_SECONDS
    with process.stdout as output:
        while _READY not in told:
            left = until - time.monotonic()
            if left <= 0 or not select.select([output], [], [], left)[0]:
                return False
            more = os.read(output.fileno(), 4096)
            if not more:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(5)
                return False
            told += more
    return True


def _free_port() -> int:
    with socket.socket() as found:
        found.bind((_HOST, 0))
        return int(found.getsockname()[1])


def through_tunnel(url: str, ssh: str, backend: Backend, scheme: str, flag: str) -> str:
    """Return a resolved URL whose sessions go through a tunnel.

    Args:
        url: the resolved URL.
        ssh: the value of `ssh`.
        backend: the URL's backend.
        scheme: the URL's scheme, for the message.
        flag: the option, for the message.

    Raises:
        UsageError: the backend's sessions cannot go through a tunnel, or the bastion is malformed.
    """
    match = _BASTION.fullmatch(ssh)
    if not match:
        raise UsageError(f"{flag}: ssh: expected user@bastion, or user@bastion:port")
    if not isinstance(backend, TakesTunnels):
        raise UsageError(f"{flag}: {scheme}:// does not support ssh=")
    if sys.platform != "linux":
        raise UsageError(f"{flag}: ssh= is supported on Linux only")

    def tunnel(host: str, port: int) -> str:
        bastion = match["name"] or match["address"]
        opened = SshTunnel(match["user"] or "", bastion, match["port"] or "", host, port)
        giver = giver_of(opened)
        # An equal tunnel may have been there before: it is the one that has a master.
        return f"{MARK}{giver.name},{giver_of(SaidBySsh(giver.source)).name}"

    return backend.through(url, os.environ, tunnel, flag)
