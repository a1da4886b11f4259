"""The costs of commands and servers: wall time, CPU, memory."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import psutil

TAIL = 2_000
"""Bytes of a command's output to show when it fails."""
POLL = 0.005
"""Seconds between two samples of the workers' memory."""


class CommandFailed(RuntimeError):
    """A measured command failed; the message ends with its output."""


class Server(Protocol):
    """A server of one process, or of one with children."""

    @property
    def pid(self) -> int: ...


@dataclass(frozen=True)
class Cost:
    """The cost of one copy, in seconds."""

    wall: float
    mover: float
    source: float
    target: float


def measure(source: Server | None, target: Server | None, work: Callable[[], float]) -> Cost:
    """Return the cost of a piece of work.

    Args:
        source, target: the servers; None for an external one, which counts as zero.
        work: returns the CPU seconds of the processes that it started.
    """
    before = server_cpu(source), server_cpu(target)
    begun = time.monotonic()
    mover = work()
    wall = time.monotonic() - begun
    after = server_cpu(source), server_cpu(target)
    return Cost(wall, mover, after[0] - before[0], after[1] - before[1])


def server_cpu(server: Server | None) -> float:
    """Return the CPU seconds of a server so far, including sessions that have ended."""
    if server is None:
        return 0.0
    parent = psutil.Process(server.pid)
    while True:
        own = parent.cpu_times()
        total = own.user + own.system + own.children_user + own.children_system
        for child in parent.children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                times = child.cpu_times()
                total += times.user + times.system
        again = parent.cpu_times()
        # A process reaped between the two readings may have been missed, or counted twice.
        if (own.children_user, own.children_system) == (again.children_user, again.children_system):
            return total


def run(commands: Sequence[Sequence[str]], watch: Callable[[int], None] | None = None) -> float:
    """Run a pipeline of commands, each reading the output of the one before.

    Args:
        watch: called repeatedly with the id of the last process, while it is alive.

    Returns: the CPU seconds of all of them, and of the processes that they waited for.

    Raises:
        CommandFailed: a command failed.
    """
    with tempfile.TemporaryFile() as output_file:
        started: list[subprocess.Popen[bytes]] = []
        for position, command in enumerate(commands):
            last = position == len(commands) - 1
            before = started[-1].stdout if started else None
            started.append(
                subprocess.Popen(
                    command,
                    stdin=before or subprocess.DEVNULL,
                    stdout=output_file if last else subprocess.PIPE,
                    stderr=output_file,
                )
            )
            if before is not None:
                # Our copy of the pipe would hide from the first process that the second has ended.
                before.close()
        watching = threading.Event()
        watcher = threading.Thread(target=_watch, args=(watch, started[-1].pid, watching))
        watcher.start()
        total = 0.0
        codes = []
        for process in started:
            # Not Popen.wait, which would discard the process's resource usage.
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            codes.append(process.returncode)
            total += used.ru_utime + used.ru_stime
        watching.set()
        watcher.join()
        if any(codes):
            output_file.seek(0)
            output = output_file.read()[-TAIL:].decode(errors="replace")
            raise CommandFailed(f"{commands[-1][0]} ended with {codes}\n{output}")
    return total


def _watch(look: Callable[[int], None] | None, pid: int, ended: threading.Event) -> None:
    while look is not None and not ended.wait(POLL):
        look(pid)


class PeakMemory:
    """The peak resident memory of the workers below a process, in bytes."""

    def __init__(self) -> None:
        self.bytes = 0
        self._workers: dict[int, bool] = {}

    def look(self, pid: int) -> None:
        with contextlib.suppress(OSError, psutil.Error):
            for child in psutil.Process(pid).children(recursive=True):
                with contextlib.suppress(OSError, psutil.Error):
                    if self._is_worker(child):
                        self.bytes = max(self.bytes, _high_water(child.pid))

    def _is_worker(self, process: psutil.Process) -> bool:
        # Workers are forks of the nursery and keep its command line. A child that has not started
        # its own program yet still has its parent's command line and memory.
        if not self._workers.get(process.pid):
            self._workers[process.pid] = "penstock.workers.fork_server" in process.cmdline()
        return self._workers[process.pid]


def _high_water(pid: int) -> int:
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as status:
        for line in status:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0
