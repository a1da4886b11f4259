"""A backend whose attempts do what the partition's id says; most do so only the first time."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Iterator
from typing import Any

from penstock.backends.api.worker import Block, LoadResult, Wait
from penstock.errors import TransientError
from penstock.model.plans import Partition
from penstock.spec.worker_spec import WorkerSpec

# Longer than a worker may be stuck or silent.
LONG = 22.0


def lock_twice(library: type[ctypes.CDLL]) -> None:
    """Run native code that no signal interrupts; a `PyDLL` keeps the GIL during the call."""
    mutex = ctypes.create_string_buffer(64)  # zeros are the value of PTHREAD_MUTEX_INITIALIZER
    lock = library(None).pthread_mutex_lock
    lock(mutex)
    lock(mutex)


class Stuck:
    """A reader and a writer of one row."""

    rows = 1
    _name = ""
    _first = True

    def switch_run(self, spec: WorkerSpec) -> None: ...

    def label(self, application_name: str) -> None:
        *_, self._name, attempt = application_name.split(":")
        self._first = attempt == "1"

    def read(self, partition: Partition, wait: Wait) -> Iterator[tuple[Block, int, int]]:
        if self._first or self._name == "crash":
            self._misbehave()
        yield b"row", 1, 3

    def _misbehave(self) -> None:
        if self._name == "native":
            lock_twice(ctypes.CDLL)
        elif self._name == "gil":
            lock_twice(ctypes.PyDLL)
        elif self._name in ("crash", "crash-once"):
            os.abort()
        elif self._name == "rollback":
            raise TransientError("something else")
        elif self._name == "sleep":
            time.sleep(LONG)
        elif self._name == "thread":
            thread = threading.Thread(target=time.sleep, args=[LONG])
            thread.start()
            thread.join()

    def begin(self, partition: Partition, attempt: int, wait: Wait) -> bool:
        return True

    def fileno(self) -> int:
        return -1

    def check(self) -> None: ...

    def write(self, block: Block, wait: Wait) -> None: ...

    def end(self, wait: Wait) -> LoadResult:
        return LoadResult(1)

    def commit(self, loaded: LoadResult, bytes: int, wait: Wait) -> None: ...

    def abandon(self) -> None:
        if self._name == "rollback" and self._first:
            lock_twice(ctypes.CDLL)


class StuckBackend:
    def preload(self) -> None: ...

    def reader(self, spec: WorkerSpec) -> Any:
        return Stuck()

    writer = reader


BACKEND = StuckBackend()
