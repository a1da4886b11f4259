"""A step does not outlive the process that has started it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

LOOK_EVERY = 0.5


@contextmanager
def ended_with_parent() -> Iterator[None]:
    """Interrupt this process when its parent is gone, as Dagster does when a run is canceled.

    Dagster runs a step in a process of its own, which goes on when that of the run is killed:
    beside the retry of a run that has failed. A process that Python's `multiprocessing` has not
    started is left alone.
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
