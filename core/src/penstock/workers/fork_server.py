"""`python -m penstock.workers.fork_server`: imports what a worker needs once, and forks workers.

Imports cause most of a worker's start-up cost (0.25 s of CPU time, measured; a fork takes 2 ms).
The supervisor's own process cannot be forked: it may be an orchestrator's, with threads and
sockets. This one has neither.

Each request on its socket is one byte with three file descriptors: the worker's stdin, stdout and
stderr. Answers are lines: ``started PID``, ``ended PID EXITCODE``. When the socket closes, the
supervisor is gone, and the nursery exits; its workers notice by themselves.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import socket
import sys
from collections.abc import Sequence

from penstock.backends.api.imports import leave_out
from penstock.backends.api.registry import load_backend
from penstock.workers import worker


def serve(requests: socket.socket) -> None:
    """Fork a worker for each request until the socket closes."""
    # SIGCHLD writes to the pipe, so that one select waits for both.
    ended, wakeup = os.pipe()
    os.set_blocking(ended, False)
    os.set_blocking(wakeup, False)
    signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    while True:
        ready, _, _ = select.select([requests.fileno(), ended], [], [])
        if ended in ready:
            os.read(ended, 1 << 10)
            _report_ended(requests)
        if requests.fileno() in ready:
            data, descriptors, _, _ = socket.recv_fds(requests, 1, 3)
            if not data:
                return
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                os.close(ended)
                os.close(wakeup)
                requests.close()
                _become_worker(descriptors)
            for descriptor in descriptors:
                os.close(descriptor)
            _answer(requests, f"started {pid}")


def _become_worker(descriptors: list[int]) -> None:
    for standard, descriptor in enumerate(descriptors):
        os.dup2(descriptor, standard)
        os.close(descriptor)
    worker.run_and_exit()


def _report_ended(requests: socket.socket) -> None:
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            _answer(requests, f"ended {pid} {os.waitstatus_to_exitcode(status)}")


def _answer(requests: socket.socket, line: str) -> None:
    # The next request shows whether the supervisor is dead.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        requests.sendall(line.encode() + b"\n")


def run(descriptor: int, backends: Sequence[str]) -> None:
    """Run as a nursery.

    Args:
        descriptor: the descriptor of the socket.
        backends: the backends to import.
    """
    leave_out()
    for backend in dict.fromkeys(backends):
        load_backend(backend).preload()
    gc.freeze()
    serve(socket.socket(fileno=descriptor))


def main() -> None:
    """Run with the socket's descriptor and the backends to import as arguments."""
    descriptor, *backends = sys.argv[1:]
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the supervisor's to handle
    run(int(descriptor), backends)


if __name__ == "__main__":
    main()
