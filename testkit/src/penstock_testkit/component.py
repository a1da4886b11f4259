"""One process of an orchestrator, running beside the tests."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import psutil

from penstock_testkit import family
from penstock_testkit.servers import ServerError


class Component:
    """A process and its descendants, none of which outlives this process.

    Args:
        name: the name for messages and the log.
        command: the command to run.
        env: its whole environment.
        log: the file to append its output to.
    """

    def __init__(self, name: str, command: list[str], env: dict[str, str], log: Path) -> None:
        self.name = name
        self.log = log
        self._command = command
        self._env = env
        self._process: psutil.Process | None = None
        self._families: list[subprocess.Popen[str]] = []

    @property
    def process(self) -> psutil.Process:
        """Return its process, the last one started.

        Raises:
            ServerError: it was never started.
        """
        if self._process is None:
            raise ServerError(f"{self.name} was not started")
        return self._process

    @property
    def running(self) -> bool:
        return self._process.is_running() if self._process is not None else False

    def start(self) -> None:
        """Start it; do nothing if it is running."""
        if self.running:
            return
        keep = [sys.executable, "-I", "-S", family.__file__, str(os.getpid())]
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                [*keep, *self._command],
                env=self._env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        assert process.stdout is not None
        self._families.append(process)
        self._process = psutil.Process(int(process.stdout.readline()))

    def stop(self, timeout: float = 30) -> None:
        """Send it SIGTERM, then end remaining processes with SIGKILL."""
        if self.running:
            # It may end by itself just now.
            with contextlib.suppress(psutil.NoSuchProcess, psutil.TimeoutExpired):
                self.process.terminate()
                self.process.wait(timeout)
        self.close()

    def kill(self) -> None:
        """End it and all its descendants with SIGKILL, like a machine that is lost."""
        self.close()

    def close(self) -> None:
        """End everything that was ever started, at once."""
        for keeper in self._families:
            assert keeper.stdin is not None
            assert keeper.stdout is not None
            keeper.stdin.close()
            keeper.wait(30)
            keeper.stdout.close()
        self._families.clear()

    def log_tail(self, lines: int = 40) -> str:
        """Return the last lines of its output."""
        if not self.log.exists():
            return ""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
