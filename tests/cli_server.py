"""Runs `penstock`, each time in a fork of one process that has its modules imported.

To import them takes longer than a small copy. Usage: ``python -P cli_server.py DESCRIPTOR``, of a
SOCK_SEQPACKET socket. A request is JSON (arguments, folder, environment, and whether the process
leads a session of its own) with four descriptors: the three standard ones, and a pipe that gets two
lines, the process id once it is as asked for, and the exit code, negative for a signal.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import pkgutil
import select
import signal
import socket
import sys
import time
from importlib import import_module
from typing import Any

# Their libraries begin threads, which a fork would be without: imported by those who need them.
DRIVERS = ("duckdb", "pyarrow", "snowflake")


def prepare() -> None:
    found = pkgutil.walk_packages(import_module("penstock").__path__, "penstock.")
    sys.modules.update(dict.fromkeys(DRIVERS))  # type: ignore[arg-type] # cannot be imported now
    for module in found:
        with contextlib.suppress(ImportError):
            import_module(module.name)
    for name in DRIVERS:
        del sys.modules[name]
    assert len(os.listdir("/proc/self/task")) == 1, "a fork would be without the other threads"
    gc.freeze()


def serve(requests: socket.socket) -> list[str] | None:
    """The arguments in a fork that is to run `penstock`; None once there are no more requests."""
    ended, wakeup = os.pipe()
    for end in (ended, wakeup):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    answers: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([requests.fileno(), ended], [], [])
        if ended in ready:
            os.read(ended, 1 << 10)
            report(answers)
        if requests.fileno() not in ready:
            continue
        message, descriptors, _, _ = socket.recv_fds(requests, 1 << 20, 4)
        if not message:
            return None
        *standard, answer = descriptors
        if pid := os.fork():
            answers[pid] = answer
            for descriptor in standard:
                os.close(descriptor)
            continue
        for descriptor in (ended, wakeup, *answers.values()):
            os.close(descriptor)
        requests.close()
        arguments = become(standard, **json.loads(message))
        os.write(answer, f"{os.getpid()}\n".encode())
        os.close(answer)
        return arguments


def report(answers: dict[int, int]) -> None:
    """Say which of the forks have ended, and how."""
    while answers:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        os.write(answers[pid], f"{os.waitstatus_to_exitcode(status)}\n".encode())
        os.close(answers.pop(pid))


def become(
    standard: list[int], *, arguments: list[str], folder: str, env: dict[str, str], session: bool
) -> list[str]:
    """Be as if this process was started by itself."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, descriptor in enumerate(standard):
        os.dup2(descriptor, number)
        os.close(descriptor)
    if session:
        os.setsid()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    sys.argv[:] = ["penstock", *arguments]
    return arguments


def main() -> int:
    descriptor = int(sys.argv[1])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    prepare()
    arguments = serve(socket.socket(fileno=descriptor))
    if arguments is None:
        return 0
    cli: Any = import_module("penstock.cli.main")
    cli.run()  # as the program does: it never returns
    return 0


if __name__ == "__main__":
    sys.exit(main())
