"""Run one command as a child, and end it when the process that started this one is gone.

Usage: ``python -I -S keeper.py PARENT_PID DIRECTORY COMMAND...``, with a pipe as stdin that the
parent keeps open. When the pipe closes or the parent has changed, the command gets SIGQUIT and, ten
seconds later, SIGKILL, and DIRECTORY is removed.

PR_SET_PDEATHSIG would not do: it fires when the *thread* that started the child ends, and the
kernel clears it when credentials change, as they do in ``unshare``.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
import threading


def wait_until_orphaned(parent: int) -> None:
    # A forked relative may hold the pipe open for longer than the parent lives.
    while os.getppid() == parent:
        if select.select([sys.stdin], [], [], 0.5)[0]:
            return


def end(child: subprocess.Popen[bytes]) -> None:
    child.send_signal(signal.SIGQUIT)
    child.send_signal(signal.SIGCONT)
    try:
        child.wait(10)
    except subprocess.TimeoutExpired:
        child.kill()


def main() -> int:
    parent, directory, command = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    orphaned = threading.Event()

    def watch() -> None:
        wait_until_orphaned(parent)
        orphaned.set()
        end(child)

    threading.Thread(target=watch, daemon=True).start()
    returncode = child.wait()
    if orphaned.is_set():
        shutil.rmtree(directory, ignore_errors=True)
    return returncode if returncode >= 0 else 128 - returncode


if __name__ == "__main__":
    # The terminal's Ctrl-C goes to the whole group, but a server ends when its owner says so.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # If the tests run in the background it is ignored, and the command would inherit that.
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    sys.exit(main())
