"""Leases: which attempt is copying a partition, in a target whose sessions hold no locks.

A lease is a document that its attempt changes again and again. Whoever finds it compares it with
what it found before: a lease that has not changed for the grace time, by the clock of the process
that looks, belongs to an attempt that was killed or cut off, and is taken over. No two clocks are
compared. A lease only saves work: if two attempts copy a partition, because one was cut off for
longer than the grace time, the first to write the commit record wins, as without leases.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from secrets import token_hex

from penstock.backends.api.execution.roll_forward import RecordDocuments
from penstock.errors import PenstockError

# How often a lease is changed within the grace time.
BEATS = 3.0


class Lease:
    """A lease of this process, which a thread renews until it is released.

    Args:
        documents: the documents of the target.
        name: the name of the document.
        nonce: a text that no other lease has.
        grace: the seconds after which others take over a lease that has not changed.
    """

    def __init__(self, documents: RecordDocuments, name: str, nonce: str, grace: float) -> None:
        self._documents = documents
        self._name = name
        self._nonce = nonce
        self._over = threading.Event()
        self._pause = grace / BEATS
        self._thread = threading.Thread(target=self._renew, daemon=True, name="penstock: lease")
        self._thread.start()

    def _renew(self) -> None:
        beat = 0
        while not self._over.wait(self._pause):
            beat += 1
            # If the target does not answer in time, others take it over: that does no harm.
            with suppress(PenstockError):
                found = self._documents.get(self._name)
                if found is None or not _is_of(found[0], self._nonce):
                    return
                if not self._documents.replace(self._name, _content(self._nonce, beat), found[1]):
                    return

    def release(self) -> None:
        """End the lease, so that others need not wait. May be called twice; raises nothing."""
        if self._over.is_set():
            return
        self._over.set()
        self._thread.join(self._pause)
        with suppress(PenstockError):
            found = self._documents.get(self._name)
            if found is not None and _is_of(found[0], self._nonce):
                self._documents.delete([self._name])


class Leases:
    """The leases that this process has seen.

    Args:
        clock: returns seconds, as `time.monotonic` does.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: dict[str, tuple[str, float]] = {}
        """By name: the version of a lease of others, and when it was first seen."""

    def take(self, documents: RecordDocuments, name: str, grace: float) -> Lease | None:
        """Take a lease without waiting; return None if another process has it.

        Args:
            documents: the documents of the target.
            name: the name of the lease.
            grace: the seconds after which a lease that has not changed is taken over.
        """
        nonce = token_hex(8)
        content = _content(nonce, 0)
        if not documents.create(name, content):
            found = documents.get(name)
            if found is None or not self.is_stale(name, found[1], grace):
                return None
            if not documents.replace(name, content, found[1]):
                return None
        self._seen.pop(name, None)
        return Lease(documents, name, nonce, grace)

    def is_stale(self, name: str, version: str, grace: float) -> bool:
        """Whether a lease of another process has not changed for the grace time."""
        now = self._clock()
        seen, since = self._seen.get(name, ("", now))
        if seen != version:
            self._seen[name] = version, now
            return False
        return now - since >= grace


def lease_name(run_id: str, generation: int, partition_id: str) -> str:
    """Return the name of the lease of a partition."""
    return f"leases/{run_id}/{generation}/{partition_id}.json"


def _content(nonce: str, beat: int) -> bytes:
    return json.dumps({"nonce": nonce, "beat": beat}).encode()


def _is_of(content: bytes, nonce: str) -> bool:
    try:
        return bool(json.loads(content)["nonce"] == nonce)
    except (ValueError, KeyError, TypeError):
        return False
