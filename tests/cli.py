"""Penstock in a process of its own, forked by `cli_server` rather than started from scratch."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import IO

SERVER = Path(__file__).with_name("cli_server.py")
# Python reads these as it starts, so a fork does not see them.
AT_START = ("PYTHON", "LC_", "LANG")

# Parts of URLs and names of backends that need large drivers.
WITH_DRIVERS = ("clickhouse", "duckdb", "file:", "mssql", "mysql", "parquet", "s3:", "snowflake")


def umask() -> int:
    """Return the umask of this process, which no function tells without setting it."""
    current = os.umask(0o077)
    os.umask(current)
    return current


class Cli:
    """A running command, with an interface like that of `subprocess.Popen`.

    Args:
        arguments: the command's arguments.
        stdout: the file that receives its output; by default a pipe, in the attribute `stdout`.
        env: the whole environment; by default that of this process.
        session: whether the command leads a session of its own.
        run: ``penstock``; ``script``, a Python program, which is the first argument; or
            ``nursery``, whose arguments are backends.
        more: the additional descriptor that a nursery needs.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        stderr: IO[bytes],
        stdout: IO[bytes] | None = None,
        env: Mapping[str, str] | None = None,
        session: bool = False,
        run: str = "penstock",
        more: Sequence[int] = (),
    ) -> None:
        self.returncode: int | None = None
        self.stdout: IO[bytes] | None = None
        environment = dict(os.environ if env is None else env)
        assert can_be_forked(environment), "start it by itself"
        request = {
            "run": run,
            "arguments": [*arguments],
            "process": {
                "folder": os.getcwd(),
                "umask": umask(),
                "env": environment,
                "session": session,
            },
        }
        with ExitStack() as ours:
            self._answers, answer = os.pipe()
            nothing = os.open(os.devnull, os.O_RDONLY)
            for descriptor in (answer, nothing):
                ours.callback(os.close, descriptor)
            if stdout is None:
                reading, writing = os.pipe()
                ours.callback(os.close, writing)
                self.stdout = os.fdopen(reading, "rb")
            else:
                writing = stdout.fileno()
            descriptors = [nothing, writing, stderr.fileno(), answer, *more]
            socket.send_fds(
                _server(tuple(_at_start(environment).items()), _need_drivers(arguments)),
                [json.dumps(request).encode()],
                descriptors,
            )
        self.pid = self._answer(None)

    def _answer(self, timeout: float | None) -> int:
        """Return the next number that the server reports about the process.

        Raises:
            TimeoutExpired: the server has not answered within this many seconds.
        """
        if not select.select([self._answers], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired("penstock", timeout or 0)
        line = b""
        while not line.endswith(b"\n"):
            if not (more := os.read(self._answers, 1)):
                raise RuntimeError("the process that is forked to run penstock is gone")
            line += more
        return int(line)

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code, negative for a signal.

        Raises:
            TimeoutExpired: the process has not ended within this many seconds.
        """
        if self.returncode is None:
            self.returncode = self._answer(timeout)
            os.close(self._answers)
        return self.returncode

    def poll(self) -> int | None:
        """Return the exit code; None while the process runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal, unless the process has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def run_cli(
    *arguments: str, env: Mapping[str, str] | None = None, timeout: float = 120
) -> subprocess.CompletedProcess[str]:
    """Run ``penstock`` to its end.

    Raises:
        TimeoutExpired: the command ran into the timeout, in seconds, and was killed.
    """
    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        process = Cli(arguments, stdout=stdout, stderr=stderr, env=env)
        try:
            code = process.wait(timeout)
        finally:
            process.kill()
        outputs = []
        for file in (stdout, stderr):
            file.seek(0)
            outputs.append(file.read().decode())
    return subprocess.CompletedProcess(["penstock", *arguments], code, *outputs)


def run_script(text: str, *arguments: str, timeout: float = 120) -> int:
    """Run a Python program to its end, as ``python -c`` does.

    Returns:
        The exit code, negative for a signal.

    Raises:
        TimeoutExpired: the program ran into the timeout, in seconds, and was killed.
    """
    with tempfile.TemporaryFile() as outputs:
        process = Cli([text, *arguments], stdout=outputs, stderr=outputs, run="script")
        try:
            return process.wait(timeout)
        finally:
            process.kill()
            outputs.seek(0)
            print(outputs.read().decode())


def can_be_forked(env: Mapping[str, str]) -> bool:
    """Whether a fork behaves like a process that is started with this environment."""
    return _at_start(env) == _at_start(os.environ)


def _at_start(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith(AT_START)}


def _need_drivers(arguments: Sequence[str]) -> bool:
    """Whether any argument is a URL or backend that needs a large driver."""
    return any(name in argument for argument in arguments for name in WITH_DRIVERS)


@cache
def _server(_environment: tuple[tuple[str, str], ...], drivers: bool) -> socket.socket:
    """Start this process's server for an environment, and return the socket that leads to it.

    The contract suite's environment has packages of its own. The server ends with this process.
    """
    requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-P", SERVER, str(theirs.fileno()), *(["drivers"] if drivers else [])],
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            start_new_session=True,
        )

    def end() -> None:
        requests.close()
        process.wait(30)

    atexit.register(end)
    return requests
