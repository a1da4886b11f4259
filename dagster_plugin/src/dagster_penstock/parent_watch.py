"""A watch on the parent process, so that a step does not outlive it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

LOOK_EVERY = 0.5


@contextmanager
def interrupt_with_parent() -> Iterator[None]:
    """Interrupt this process when its parent is gone, as Dagster does when a run is canceled.

    Dagster runs a step in a process of its own, which keeps running when the run's process is
    killed, even during a retry of the failed run. A process that Python's `multiprocessing` did not
    start is not watched.
    """
    parent = multiprocessing.parent_process()
    if parent is None:
        yield
        return
    over = threading.Event()

    def watch() -> None:
        while not over.wait(LOOK_EVERY):
            if not parent.is_alive():
                os.kill(os.getpid(), signal.SIGINT)
                return

    thread = threading.Thread(target=watch, name="penstock-parent", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
