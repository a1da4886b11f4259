"""Run one command, adopt its orphans, and end all of them when the parent is gone.

Usage: ``python -I -S family.py PARENT_PID COMMAND...``, with a pipe as stdin that the parent keeps
open. The command's process id is written to stdout; its output goes to stderr. When the pipe closes
or the parent has changed, every descendant gets SIGKILL.

An orchestrator's tasks may have their own process groups, and outlive the process that started
them: this process adopts them, so that none is lost.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import threading
import time

PR_SET_CHILD_SUBREAPER = 36


def wait_until_orphaned(parent: int) -> None:
    # A forked relative may hold the pipe open for longer than the parent lives.
    while os.getppid() == parent:
        if select.select([sys.stdin], [], [], 0.5)[0]:
            return


def children() -> list[int]:
    """Return our direct children, including adopted ones."""
    this_process = os.getpid()
    with open(f"/proc/{this_process}/task/{this_process}/children", encoding="ascii") as file:
        return [int(child) for child in file.read().split()]


def end_all() -> None:
    # When a process ends, its children become ours, generation after generation.
    while True:
        for child in children():
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        time.sleep(0.02)


def main() -> None:
    parent, command = int(sys.argv[1]), sys.argv[2:]
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1)
    # Fork in the main thread, because the kernel lists children by the thread that has them.
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sys.stderr)
    print(child.pid, flush=True)

    def watch() -> None:
        wait_until_orphaned(parent)
        end_all()

    threading.Thread(target=watch, daemon=True).start()
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()


if __name__ == "__main__":
    # The terminal's Ctrl-C may go to every process, but a server ends when its owner says so. Use a
    # handler, because the command and its children would inherit an ignored signal.
    signal.signal(signal.SIGINT, lambda number, frame: None)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    main()
