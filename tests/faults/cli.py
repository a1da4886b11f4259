"""The command line as a subprocess, whose events are read as they arrive."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import psutil

from penstock.events import Event, Finished, Opened, Progress, from_line

from ..cli import Cli

# Enough for a busy machine: a test that waits this long has failed.
PATIENCE = 90.0
# Seconds within which Penstock promises to end.
PROMISED = 5.0

E = TypeVar("E", bound=Event)


def eventually(what: str, holds: Callable[[], bool], within: float) -> None:
    """Wait until a condition holds, and fail if it does not in time."""
    deadline = time.monotonic() + within
    while not holds():
        if time.monotonic() > deadline:
            raise AssertionError(f"expected within {within:g} s: {what}")
        time.sleep(0.02)


def promised() -> float:
    """Return the time limit for something that is promised within 5 seconds.

    On an idle machine, that is 5 seconds. The promise needs a CPU, so with more than half a
    runnable process per CPU, the limit grows by that factor: twice with one per CPU, eight times
    with four. A real hang still fails.

    Returns:
        Seconds. The load is the larger of the last minute's and the current one, because the former
        does not include processes that have just started.
    """
    load = os.getloadavg()[0]
    with contextlib.suppress(OSError):
        now = Path("/proc/loadavg").read_text(encoding="ascii").split()[3].partition("/")[0]
        load = max(load, float(now))
    return PROMISED * max(1.0, 2 * load / (os.cpu_count() or 1))


class Run:
    """A `penstock copy` or `penstock resume` with `--json`, in a session of its own.

    Workers stay in that session even after the main process is gone, so they can be found by it.
    """

    script = ""
    """A program instead of ``penstock``."""

    def __init__(self, *words: str) -> None:
        self.events: list[Event] = []
        self._changed = threading.Condition()
        self._ended = False
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `close`
        arguments = [*words, "--json"]
        run = "script" if self.script else "penstock"
        command = [self.script, *arguments] if self.script else arguments
        self.popen = Cli(command, stderr=self._errors, session=True, run=run)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.popen.stdout is not None
        for line in self.popen.stdout:
            event = from_line(line)
            with self._changed:
                self.events.append(event)
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    @property
    def pid(self) -> int:
        return self.popen.pid

    @property
    def errors(self) -> str:
        """Return the text on stderr so far."""
        size = os.fstat(self._errors.fileno()).st_size
        return os.pread(self._errors.fileno(), size, 0).decode(errors="replace")

    def of(self, kind: type[E], **values: Any) -> list[E]:
        """Return the events so far of a kind whose fields have these values."""
        with self._changed:
            return [
                event
                for event in self.events
                if isinstance(event, kind)
                and all(getattr(event, name) == value for name, value in values.items())
            ]

    def wait_for(self, kind: type[E], *, count: int = 1, **values: Any) -> E:
        """Wait until there are `count` events of a kind with these values, and return the last."""
        deadline = time.monotonic() + PATIENCE
        with self._changed:
            while len(found := self.of(kind, **values)) < count:
                seconds = deadline - time.monotonic()
                if self._ended or seconds < 0:
                    raise AssertionError(f"no event {kind.name} with {values}: {self._recorded()}")
                self._changed.wait(seconds)
        return found[count - 1]

    @property
    def finished(self) -> Finished:
        return self.wait_for(Finished)

    def opened(self) -> list[tuple[str, int]]:
        """Return partition and attempt of every attempt so far, sorted."""
        return sorted((event.partition_id, event.attempt) for event in self.of(Opened))

    def has_ended(self) -> bool:
        return self.popen.poll() is not None

    def ended(self, code: int, within: float = PATIENCE) -> None:
        """Wait for the end of the run, and check its exit code."""
        try:
            found = self.popen.wait(within)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it has not ended in {within:g} s: {self._recorded()}") from None
        self._reader.join(PATIENCE)
        if found != code:
            raise AssertionError(f"expected exit code {code}, found {found}: {self._recorded()}")

    def _recorded(self) -> str:
        reported = [event for event in self.events if not isinstance(event, Progress)]
        lines = [event.to_line() for event in reported[-40:]]
        return "\n".join(["", *lines, self.errors])

    def workers(self) -> list[int]:
        """Return the live worker processes, whether or not the supervisor is alive."""
        return [pid for pid in psutil.pids() if pid != self.pid and self._is_mine(pid)]

    def _is_mine(self, pid: int) -> bool:
        with contextlib.suppress(ProcessLookupError, psutil.NoSuchProcess):
            return (
                os.getsid(pid) == self.pid and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
            )
        return False

    def kill(self) -> None:
        """Send SIGKILL to the supervisor alone."""
        self.popen.kill()
        self.popen.wait(PATIENCE)

    def signal_all(self, number: signal.Signals) -> None:
        """Send a signal to supervisor and workers, as a terminal sends Ctrl-C."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def close(self) -> None:
        """End all processes, in any state."""
        self.signal_all(signal.SIGKILL)
        self.popen.wait(PATIENCE)
        self._reader.join(PATIENCE)
        assert self.popen.stdout is not None
        self.popen.stdout.close()
        self._errors.close()
