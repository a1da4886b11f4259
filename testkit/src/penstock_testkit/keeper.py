"""Run one command as a child, and end it when the process that asked for it is gone.

Usage: ``python -I -S keeper.py PARENT_PID DIRECTORY COMMAND...``, with a pipe as stdin that the
parent keeps open. When the pipe closes or the parent is another one, the command gets SIGQUIT, ten
seconds later SIGKILL, and DIRECTORY is removed.

A process of its own and not PR_SET_PDEATHSIG: that one fires when the *thread* that started the
child ends, and the kernel clears it when credentials change, as they do in ``unshare``.
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
    # The terminal's Ctrl-C goes to the whole group; a server ends when its owner says so.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Where the tests are started in the background it is ignored, as it would be by the command.
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    sys.exit(main())
