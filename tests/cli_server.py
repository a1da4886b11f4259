"""Runs Penstock, each time in a fork of one process that has imported its modules.

Importing them takes longer than a small copy. Usage: ``python -P cli_server.py SOCKET [drivers]``,
with the descriptor of a SOCK_SEQPACKET socket. Without ``drivers``, large drivers are not imported,
because a fork takes longer the more memory there is.

A request is JSON (what the fork runs, its arguments, folder, umask and environment, and whether it
leads a session of its own) with four descriptors: the three standard ones, and a pipe that receives
two lines: the process id once the fork is set up, and the exit code, negative for a signal. A
nursery receives a fifth one, its socket.
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
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

# Left out unless a database other than PostgreSQL needs them.
LARGE = ("duckdb", "pyarrow", "snowflake")
# Modules that drivers import when they are first used.
LATER = ("pyarrow.compute", "pyarrow.dataset", "pyarrow.parquet", "snowflake.connector")
# A fork would lose any other thread; the exception is jemalloc's, which a nursery's workers do
# without, too.
THREADS = {"jemalloc_bg_thd"}


def prepare(*, drivers: bool) -> None:
    leave_out: Any = import_module("penstock.backends.api.imports").leave_out
    leave_out()  # as the program does
    found = pkgutil.walk_packages(import_module("penstock").__path__, "penstock.")
    if not drivers:
        sys.modules.update(dict.fromkeys(LARGE))  # type: ignore[arg-type] # cannot be imported now
    for name in (*(module.name for module in found), *(LATER if drivers else ())):
        with contextlib.suppress(ImportError):
            import_module(name)
    for name in () if drivers else LARGE:
        del sys.modules[name]
    names = [path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")]
    assert len([name for name in names if name not in THREADS]) == 1, names
    gc.freeze()


def serve(requests: socket.socket) -> Callable[[], object] | None:
    """Serve requests; return the work to do in a fork, and None once there are no more requests."""
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
        message, descriptors, _, _ = socket.recv_fds(requests, 1 << 20, 5)
        if not message:
            return None
        standard, (answer, *more) = descriptors[:3], descriptors[3:]
        if pid := os.fork():
            answers[pid] = answer
            for descriptor in (*standard, *more):
                os.close(descriptor)
            continue
        for descriptor in (ended, wakeup, *answers.values()):
            os.close(descriptor)
        requests.close()
        request = json.loads(message)
        become(standard, **request["process"])
        os.write(answer, f"{os.getpid()}\n".encode())
        os.close(answer)
        return partial(RUNS[request["run"]], *request["arguments"], *more)


def report(answers: dict[int, int]) -> None:
    """Report the forks that have ended, and their exit codes."""
    while answers:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        os.write(answers[pid], f"{os.waitstatus_to_exitcode(status)}\n".encode())
        os.close(answers.pop(pid))


def become(
    standard: list[int], *, folder: str, umask: int, env: dict[str, str], session: bool
) -> None:
    """Make this process look as if it had been started on its own."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, descriptor in enumerate(standard):
        os.dup2(descriptor, number)
        os.close(descriptor)
    if session:
        os.setsid()
    os.chdir(folder)
    os.umask(umask)
    os.environ.clear()
    os.environ.update(env)
    time.tzset()


def penstock(*arguments: str) -> object:
    sys.argv[:] = ["penstock", *arguments]
    cli: Any = import_module("penstock.cli.main")
    return cli.run()  # like the program: it never returns


def script(text: str, *arguments: str) -> None:
    """Run a program as ``python -c`` does."""
    sys.argv[:] = ["-c", *arguments]
    exec(compile(text, "<string>", "exec"), {"__name__": "__main__"})


def nursery(*args: Any) -> object:
    """Run a nursery as the command line does; never return."""
    *backends, requests = args
    early_fork: Any = import_module("penstock.workers.early_fork")
    ours = socket.socket(fileno=requests)
    return early_fork._become_nursery(ours, os.dup(2), (), dict(os.environ), backends)


RUNS: dict[str, Callable[..., object]] = {
    "penstock": penstock,
    "script": script,
    "nursery": nursery,
}


def main() -> int:
    descriptor = int(sys.argv[1])
    drivers = "drivers" in sys.argv[2:]
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    prepare(drivers=drivers)
    todo = serve(socket.socket(fileno=descriptor))
    if todo is not None:
        todo()
    return 0


if __name__ == "__main__":
    sys.exit(main())
