"""The parts of a stack's processes that every user of a machine can see."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from penstock_testkit.airflow import AirflowStack

LOOK_EVERY = 0.1
NURSERY = "penstock.workers.fork_server"


class Watch:
    """Collects arguments and environments of a stack's processes. A context manager."""

    def __init__(self, stack: AirflowStack) -> None:
        self.texts: set[bytes] = set()
        self.nurseries: set[psutil.Process] = set()
        """The processes with which tasks began to copy."""
        self._stack = stack
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(LOOK_EVERY):
            for part in self._stack.components.values():
                # Processes start and end at any time.
                with contextlib.suppress(psutil.Error):
                    for process in (part.process, *part.process.children(recursive=True)):
                        self._look(process.pid)
                        if NURSERY in process.cmdline():
                            self.nurseries.add(process)

    def _look(self, pid: int) -> None:
        for name in ("cmdline", "environ"):
            with contextlib.suppress(OSError):
                self.texts.add(Path(f"/proc/{pid}/{name}").read_bytes())
