"""Worker processes as seen by the supervisor, and the nursery that starts them."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from penstock.backends.api.backend import worker_memory
from penstock.backends.api.registry import load_backend
from penstock.errors import PermanentError
from penstock.workers import early_fork

START_SECONDS = 60.0
LAUNCHES = 5
ORPHAN_POLL = 0.05


class WorkerProcess:
    """One worker: its pipes and exit code."""

    def __init__(
        self, nursery: Nursery, pid: int, stdin: BinaryIO, stdout: BinaryIO, stderr: BinaryIO
    ) -> None:
        self._nursery = nursery
        self.pid = pid
        self.stdin = stdin
        self.stdout = stdout
        self.stderr = stderr

    def wait(self, timeout: float) -> int | None:
        """Return the exit code, negative for a signal; None if it has not ended in time."""
        return self._nursery.wait(self.pid, timeout)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal unless the worker has ended."""
        if self.wait(0) is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def close(self) -> None:
        for stream in (self.stdin, self.stdout, self.stderr):
            with contextlib.suppress(BrokenPipeError):
                stream.close()


class Nursery:
    """A starter of workers, through `penstock.workers.fork_server`.

    That process is started at once, so that its imports run while the caller plans.

    Args:
        environment: the environment of the workers.
        backends: ``module:attribute`` of each backend that workers need.
    """

    def __init__(self, environment: Mapping[str, str], backends: Sequence[str]) -> None:
        self._environment = dict(environment)
        self._backends = tuple(backends)
        self._ended: dict[int, int] = {}
        self._received = b""
        self._popen: subprocess.Popen[bytes] | early_fork.ForkedNursery
        self._mine: set[int] = set()
        """Workers of the current nursery process; those of an earlier one are orphans."""
        self._launch()

    def _launch(self) -> None:
        self._mine.clear()
        if early := early_fork.take(self._environment, self._backends):
            self._socket, self._popen = early
            return
        self._socket, theirs = socket.socketpair()
        with theirs, _without_interrupts():
            # -P: no file in the current folder may pose as a module.
            self._popen = subprocess.Popen(
                [
                    sys.executable,
                    "-P",
                    "-m",
                    "penstock.workers.fork_server",
                    str(theirs.fileno()),
                    *self._backends,
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env=self._environment,
                pass_fds=[theirs.fileno()],
            )

    @property
    def worker_memory(self) -> int:
        """The bytes of memory that a worker takes, by the backends that it loads."""
        return max(worker_memory(load_backend(each)) for each in self._backends)

    def start(self) -> WorkerProcess:
        """Start a worker.

        Raises:
            PermanentError: workers cannot be started; includes Python's error output.
        """
        for _ in range(LAUNCHES):
            worker = self._ask()
            if worker is not None:
                return worker
            # The nursery process was killed: start another.
            self._discard()
            self._launch()
        raise PermanentError(f"workers cannot be started: killed {LAUNCHES} times in a row")

    def _ask(self) -> WorkerProcess | None:
        """Return a worker, or None if the nursery was killed before it could start one."""
        stdin, to_worker = os.pipe()
        from_worker, stdout = os.pipe()
        errors, stderr = os.pipe()
        theirs = (stdin, stdout, stderr)
        pid = None
        try:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                socket.send_fds(self._socket, [b"+"], theirs)
            pid = self._started()
        finally:
            for descriptor in theirs:
                os.close(descriptor)
            if pid is None:
                for descriptor in (to_worker, from_worker, errors):
                    os.close(descriptor)
        if pid is None:
            return None
        self._mine.add(pid)
        return WorkerProcess(
            self,
            pid,
            os.fdopen(to_worker, "wb"),
            os.fdopen(from_worker, "rb", buffering=0),
            os.fdopen(errors, "rb", buffering=0),
        )

    def _started(self) -> int | None:
        """Return the pid from the nursery's answer; None if the nursery was killed.

        Raises:
            PermanentError: the nursery ended by itself, or does not answer.
        """
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            for word, pid, _ in self._listen(min(1.0, deadline - time.monotonic())):
                if word == "started":
                    return pid
            code = self._popen.poll()
            if code is not None and code < 0:
                return None
            if code is not None:
                break
        self._popen.kill()
        assert self._popen.stderr is not None
        output = self._popen.stderr.read().decode(errors="replace").strip()
        raise PermanentError(f"workers cannot be started: {output[-2000:] or 'no answer'}")

    def wait(self, pid: int, timeout: float) -> int | None:
        deadline = time.monotonic() + timeout
        while pid not in self._ended:
            orphan = pid not in self._mine or self._popen.poll() is not None
            if orphan and (code := _end_of_orphan(pid)) is not None:
                self._ended[pid] = code
                break
            remaining = deadline - time.monotonic()
            self._listen(max(0.0, min(remaining, ORPHAN_POLL) if orphan else remaining))
            if remaining <= 0:
                break
        return self._ended.get(pid)

    def _listen(self, timeout: float) -> list[tuple[str, int, int]]:
        """Return the nursery's messages within the time; note which workers have ended."""
        ready, _, _ = select.select([self._socket], [], [], timeout)
        if ready:
            try:
                data = self._socket.recv(1 << 16)
            except ConnectionResetError:
                data = b""
            if not data:
                time.sleep(0.01)  # it is ending, and its socket stays readable until then
            self._received += data
        *lines, self._received = self._received.split(b"\n")
        answers = []
        for line in lines:
            word, pid, *code = line.decode().split()
            answers.append((word, int(pid), int(code[0]) if code else 0))
            if word == "ended":
                self._ended[int(pid)] = int(code[0])
            else:
                # The kernel may reuse the id of an earlier worker.
                self._ended.pop(int(pid), None)
        return answers

    def _discard(self) -> None:
        self._socket.close()
        self._popen.kill()
        self._popen.wait()
        assert self._popen.stderr is not None
        self._popen.stderr.close()
        self._received = b""

    def close(self) -> None:
        """Close the nursery, after ending its workers. May be called twice."""
        self._discard()


class PendingNursery:
    """A nursery that is started once it is needed.

    Args:
        launch: returns a nursery.
    """

    def __init__(self, launch: Callable[[], Nursery]) -> None:
        self._launch = launch
        self._nursery: Nursery | None = None

    @property
    def is_started(self) -> bool:
        """Whether it was started."""
        return self._nursery is not None

    def start(self) -> Nursery:
        """Return the nursery, which is started unless it was before."""
        if self._nursery is None:
            self._nursery = self._launch()
        return self._nursery

    def close(self) -> None:
        """Close the nursery, if it was started."""
        if self._nursery is not None:
            self._nursery.close()


@contextlib.contextmanager
def _without_interrupts() -> Iterator[None]:
    """Protect child processes from Ctrl-C, even before they ignore it themselves."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end_of_orphan(pid: int) -> int | None:
    """Return the exit code of a worker without its nursery; None while it runs.

    Process 1, of a container for instance, has adopted it, and must reap it.
    """
    with contextlib.suppress(ChildProcessError):
        ended, status = os.waitpid(pid, os.WNOHANG)
        return os.waitstatus_to_exitcode(status) if ended else None
    # No process remains to report how it ended.
    return None if _exists(pid) else -signal.SIGKILL


def _exists(pid: int) -> bool:
    """Whether a process is running; a zombie is not."""
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except ProcessLookupError:
        return False
    except OSError:
        return True  # there is no /proc
    return state.rpartition(")")[2].split()[0] != "Z"
