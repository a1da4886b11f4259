"""The nursery as a fork of this process, if that is Penstock's own command line.

A second interpreter would repeat the imports of this one, a third of the cost of a small copy. Any
other process, such as an orchestrator's, may have threads and sockets, which a fork must not share.
For those, and if the fork was killed, the nursery is a separate program.

Other users of the machine can see the arguments and environment of a fork's parent, which may
contain a password. So the fork overwrites its copies, and is not used if it cannot.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import socket
import sys
import traceback
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NoReturn

READY = b"+"
READY_SECONDS = 10.0
TITLE = "penstock.workers.fork_server"
_FIRST_FREE = 3
"""The first descriptor that is not a standard one."""


class ForkedNursery:
    """A fork with the part of `Popen` that `Nursery` needs."""

    def __init__(self, pid: int, stderr: BinaryIO) -> None:
        self.pid = pid
        self.stderr = stderr
        self._code: int | None = None

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal; None before it has ended."""
        return self._code if self._reaped(os.WNOHANG) else None

    def wait(self) -> int | None:
        self._reaped(0)
        return self._code

    def kill(self) -> None:
        # It has not been reaped yet, so the id is still its own.
        if not self._reaped(os.WNOHANG):
            os.kill(self.pid, signal.SIGKILL)

    def _reaped(self, options: int) -> bool:
        if self._code is None:
            try:
                pid, status = os.waitpid(self.pid, options)
            except ChildProcessError:  # SIGCHLD is ignored; `Popen` returns 0 then too
                pid, status = self.pid, 0
            if pid:
                self._code = os.waitstatus_to_exitcode(status)
        return self._code is not None


@dataclass(frozen=True, eq=False)
class _WaitingFork:
    """A fork that has not been taken by a `Nursery` yet."""

    environment: Mapping[str, str]
    backends: tuple[str, ...]
    requests: socket.socket
    process: ForkedNursery


class _OwnProcess:
    """What this process may do: nothing, until the command line declares it its own."""

    allowed = False
    waiting: _WaitingFork | None = None


_this_process = _OwnProcess()


def allow() -> None:
    """Declare that this process is Penstock's own.

    It may then be forked while it has one thread and no sockets.
    """
    _this_process.allowed = sys.platform == "linux"


def is_possible() -> bool:
    """Whether this process is Penstock's own, has one thread, and has not been forked yet."""
    return _this_process.allowed and len(os.listdir("/proc/self/task")) == 1


def fork_early(environment: Mapping[str, str], backends: Sequence[str]) -> None:
    """Fork a nursery for the next `take`, if possible, once.

    Args:
        environment: as for `Nursery`.
        backends: as for `Nursery`.
    """
    if not is_possible():
        return
    _this_process.allowed = False
    ours, theirs = socket.socketpair()
    errors, stderr = os.pipe()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        pid = os.fork()
        if pid == 0:
            _become_nursery(theirs, stderr, before, environment, backends)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()
        os.close(stderr)
    process = ForkedNursery(pid, os.fdopen(errors, "rb"))
    _this_process.waiting = _WaitingFork(dict(environment), tuple(backends), ours, process)
    if not select.select([ours], [], [], READY_SECONDS)[0] or ours.recv(len(READY)) != READY:
        discard()


def take(
    environment: Mapping[str, str], backends: Sequence[str]
) -> tuple[socket.socket, ForkedNursery] | None:
    """Return the waiting fork, if it was created for these arguments."""
    waiting = _this_process.waiting
    if waiting is None or (waiting.environment, waiting.backends) != (environment, tuple(backends)):
        return None
    _this_process.waiting = None
    return waiting.requests, waiting.process


def discard() -> None:
    """End the fork if it was not taken."""
    waiting, _this_process.waiting = _this_process.waiting, None
    if waiting is not None:
        waiting.process.kill()
        waiting.process.wait()
        waiting.process.stderr.close()
        waiting.requests.close()


def _become_nursery(
    requests: socket.socket,
    stderr: int,
    mask: Iterable[int],
    environment: Mapping[str, str],
    backends: Sequence[str],
) -> NoReturn:
    """Make this process equivalent to one started as `penstock.workers.fork_server`."""
    code = 1
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        descriptors = _take_descriptors(requests.detach(), stderr)
        os.environ.clear()
        os.environ.update(environment)
        if not sys.flags.safe_path:
            del sys.path[:1]  # maybe the current folder, where no file may pose as a module
        _show(environment)
        os.write(descriptors, READY)
        from penstock.workers import fork_server  # noqa: PLC0415

        fork_server.run(descriptors, backends)
        code = 0
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _take_descriptors(requests: int, stderr: int) -> int:
    """Replace the standard descriptors, keep the socket, and return its number."""
    requests, stderr = (
        fcntl.fcntl(descriptor, fcntl.F_DUPFD, _FIRST_FREE) for descriptor in (requests, stderr)
    )
    null = os.open(os.devnull, os.O_RDWR)
    for standard, descriptor in enumerate((null, null, stderr)):
        os.dup2(descriptor, standard)
    os.dup2(requests, _FIRST_FREE)
    os.closerange(_FIRST_FREE + 1, 1 + max(int(name) for name in os.listdir("/proc/self/fd")))
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - as long as the process
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    return _FIRST_FREE


def _show(environment: Mapping[str, str]) -> None:
    """Overwrite the arguments and environment of its parent, as others see them, with its own.

    The kernel reads both from their place at the program's start. Nothing else uses that memory any
    more: `os.environ` has copies.

    Raises:
        OSError, ValueError: they cannot be replaced on this system.
    """
    fields = Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()
    # https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html: fields 48 to 51, where the first
    # field after the name is the third.
    arguments_at, arguments_end, environment_at, environment_end = map(int, fields[45:49])
    ours = b"".join(os.fsencode(f"{name}={value}") + b"\0" for name, value in environment.items())
    # The arguments come last, because others recognize by them that this is no longer its parent.
    _overwrite("environ", environment_at, environment_end, ours)
    _overwrite("cmdline", arguments_at, arguments_end, TITLE.encode() + b"\0")


def _overwrite(name: str, start: int, end: int, text: bytes) -> None:
    if not 0 < start < start + len(text) <= end:
        raise ValueError(f"{name}: expected room for {len(text)} bytes; found {end - start}")
    with open("/proc/self/mem", "r+b", buffering=0) as memory:
        memory.seek(start)
        memory.write(text.ljust(end - start, b"\0"))
    if Path(f"/proc/self/{name}").read_bytes().rstrip(b"\0") != text.rstrip(b"\0"):
        raise ValueError(f"{name}: not replaced")
