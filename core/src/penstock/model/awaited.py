"""What a call waits for: each call to a server that takes long is reported while it lasts.

A call blocks its thread, so another thread looks at the calls that are under way, and writes a
warning about each that has lasted for some seconds, with the server's own reason if it has one.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass

LOG = logging.getLogger("penstock.waits")
# Seconds until the first line about a call, and by what factor the time to the next one grows.
QUIET, FACTOR = 5.0, 4.0
_LOOK = 0.5
# Seconds that a server may take to say why it does not answer.
_REASON_SECONDS = 3.0
_REASON_MOST = 1000


@dataclass(slots=True)
class _Call:
    where: str
    reason: Callable[[], str] | None
    during: str
    since: float
    told_at: float


class Watch:
    """The calls under way in one execution, on all of its threads."""

    def __init__(self) -> None:
        self._calls: dict[int, _Call] = {}
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self, where: str, reason: Callable[[], str] | None) -> int:
        """Note that a call begins; return its number."""
        now = time.monotonic()
        call = _Call(where, reason, _during.get(), now, now + QUIET)
        self._calls[id(call)] = call
        if self._thread is None:
            self._start()
        return id(call)

    def end(self, number: int) -> None:
        """Note that a call has ended."""
        self._calls.pop(number, None)

    def close(self) -> None:
        """End the thread that looks at calls."""
        self._over.set()

    def _start(self) -> None:
        with self._lock:
            if self._thread is None and not self._over.is_set():
                self._thread = threading.Thread(
                    target=self._look, daemon=True, name="penstock: calls that take long"
                )
                self._thread.start()

    def _look(self) -> None:
        while not self._over.wait(_LOOK):
            now = time.monotonic()
            for number, call in list(self._calls.items()):
                if now >= call.told_at and number in self._calls:
                    waited = now - call.since
                    call.told_at = call.since + FACTOR * max(waited, QUIET)
                    self._tell(number, call)

    def _tell(self, number: int, call: _Call) -> None:
        reason = _reason(call.reason) if call.reason else ""
        if number not in self._calls:
            return
        waited = time.monotonic() - call.since
        during = f" while {call.during}" if call.during else ""
        LOG.warning("%s: no answer for %.0f s%s%s", call.where, waited, during, reason)


def _reason(find: Callable[[], str]) -> str:
    """Return the server's reason, which must come soon, since this server does not answer."""
    found: list[str] = []

    def ask() -> None:
        with suppress(Exception):
            found.append(find())

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(_REASON_SECONDS)
    return f": {found[0][:_REASON_MOST]}" if found and found[0] else ""


_watch: ContextVar[Watch | None] = ContextVar("watch", default=None)
_during: ContextVar[str] = ContextVar("during", default="")


@contextmanager
def watching() -> Iterator[None]:
    """Report the calls of this block, and of the threads that it starts, that take long."""
    if _watch.get() is not None:
        yield
        return
    watch = Watch()
    token = _watch.set(watch)
    try:
        yield
    finally:
        _watch.reset(token)
        watch.close()


@contextmanager
def awaiting(where: str, reason: Callable[[], str] | None = None) -> Iterator[None]:
    """Note that the block waits for a server.

    Args:
        where: the server, as messages name it.
        reason: asks the server, in another session, what this one waits for; called on another
            thread.
    """
    watch = _watch.get()
    if watch is None:
        yield
        return
    number = watch.begin(where, reason)
    try:
        yield
    finally:
        watch.end(number)


@contextmanager
def during(what: str) -> Iterator[None]:
    """Name what the calls of the block are for, such as ``creating the control tables``."""
    token = _during.set(what)
    try:
        yield
    finally:
        _during.reset(token)
