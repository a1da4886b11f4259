"""One process of an orchestrator that runs beside the tests."""

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
    """A process, and its descendants. None of them outlives this process.

    Parameters:
        name: for messages, and of its log.
        command: what to run.
        env: its whole environment.
        log: the file that gets what it prints, after what is there already.
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
        """Its own process, that was started last.

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
        """Start it. Running, do nothing."""
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
        """Ask it to end with SIGTERM, and end what is left of it with SIGKILL."""
        if self.running:
            # It may end by itself just now.
            with contextlib.suppress(psutil.NoSuchProcess, psutil.TimeoutExpired):
                self.process.terminate()
                self.process.wait(timeout)
        self.close()

    def kill(self) -> None:
        """End it and all its descendants with SIGKILL, as the loss of its machine would."""
        self.close()

    def close(self) -> None:
        """End all that was ever started, at once."""
        for keeper in self._families:
            assert keeper.stdin is not None
            assert keeper.stdout is not None
            keeper.stdin.close()
            keeper.wait(30)
            keeper.stdout.close()
        self._families.clear()

    def log_tail(self, lines: int = 40) -> str:
        """The last lines of what it printed."""
        if not self.log.exists():
            return ""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
