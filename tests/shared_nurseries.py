"""The process that forks workers, kept from one copy of a test process to the next.

Importing modules in that process takes half the time of a small copy. Copies with the same
environment and folder, between the same kinds of ends, share a process. Workers are fresh forks of
it, as always. A new one is itself a fork of a process that has imported all drivers, like the
processes of the command line.
"""

from __future__ import annotations

import os
import select
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

import pytest

from penstock.engine import connections
from penstock.workers.early_fork import READY, READY_SECONDS
from penstock.workers.process import Nursery, WorkerProcess

from .cli import Cli, can_be_forked, umask

# The number kept while no copy uses them: each has its drivers in memory.
MOST_IDLE = 8


class _Fork(Cli):
    """A nursery, with the part of `Popen` that `Nursery` uses.

    Args:
        environment, backends: see `Nursery`.
        requests: the nursery's end of the socket.
    """

    def __init__(
        self, environment: Mapping[str, str], backends: Sequence[str], requests: socket.socket
    ) -> None:
        reading, writing = os.pipe()
        self.stderr = os.fdopen(reading, "rb")
        with open(os.devnull, "wb") as nothing, os.fdopen(writing, "wb") as stderr:
            super().__init__(
                backends,
                stdout=nothing,
                stderr=stderr,
                env=environment,
                run="nursery",
                more=[requests.fileno()],
            )


class _SharedNursery(Nursery):
    """A nursery that outlives the copy it was started for."""

    def __init__(self, environment: Mapping[str, str], backends: Sequence[str]) -> None:
        self._folder, self._umask = os.getcwd(), umask()
        super().__init__(environment, backends)

    def _launch(self) -> None:
        if not can_be_forked(self._environment):
            super()._launch()
            return
        self._mine.clear()
        self._socket, theirs = socket.socketpair()
        with theirs:
            self._popen = cast("Any", _Fork(self._environment, self._backends, theirs))
        ready = select.select([self._socket], [], [], READY_SECONDS)[0]
        if not (ready and self._socket.recv(len(READY)) == READY):
            self._discard()
            super()._launch()

    def suits(self, environment: Mapping[str, str], backends: Sequence[str]) -> bool:
        return (
            self._popen.poll() is None
            and self._folder == os.getcwd()
            and self._umask == umask()
            and self._environment == environment
            and self._backends == tuple(backends)
        )


class _Lease:
    """A nursery lent to one copy, which treats it as its own."""

    def __init__(self, nursery: _SharedNursery, idle: SharedNurseries) -> None:
        self._nursery: _SharedNursery | None = nursery
        self._idle = idle

    @property
    def worker_memory(self) -> int:
        assert self._nursery is not None, "closed before"
        return self._nursery.worker_memory

    def start(self) -> WorkerProcess:
        assert self._nursery is not None, "closed before"
        return self._nursery.start()

    def close(self) -> None:
        nursery, self._nursery = self._nursery, None
        if nursery is not None:
            self._idle.add(nursery)


class SharedNurseries:
    """The nurseries that no copy uses, in the order of their last use."""

    def __init__(self) -> None:
        self._idle: list[_SharedNursery] = []
        self._lock = threading.Lock()

    def lend(self, environment: Mapping[str, str], backends: Sequence[str]) -> _Lease:
        """Lend a nursery; replaces the constructor of `Nursery`."""
        with self._lock:
            for nursery in reversed(self._idle):
                if nursery.suits(environment, backends):
                    self._idle.remove(nursery)
                    return _Lease(nursery, self)
        return _Lease(_SharedNursery(environment, backends), self)

    def add(self, nursery: _SharedNursery) -> None:
        with self._lock:
            self._idle.append(nursery)
            spare = self._idle[:-MOST_IDLE]
            del self._idle[:-MOST_IDLE]
        for one in spare:
            one.close()

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()


@contextmanager
def shared_nurseries() -> Iterator[None]:
    """Share nurseries among the copies of this process."""
    shared = SharedNurseries()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connections, "Nursery", shared.lend)
        yield
    shared.close()
