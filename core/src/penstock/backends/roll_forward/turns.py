"""Turns that only one process has at a time, in a target whose sessions hold no locks.

A turn is a document that names its process. A process that has turns renews a lease, one for all of
them: if that has not changed for the grace time, or is gone, others take over its turns. A process
that was only cut off may then do what another is doing, too, which does no harm.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from secrets import token_hex
from typing import Any

from penstock.backends.api.execution.records import RecordStore
from penstock.backends.api.execution.roll_forward import RecordDocuments
from penstock.backends.roll_forward.leases import Lease, Leases
from penstock.errors import PenstockError

FOLDER = "leases/turns"
# A process that ends does not wait for a server that does not answer.
LEAVE_SECONDS = 2.0

Found = Mapping[str, tuple[bytes, str]]


class Turns:
    """The turns of this process.

    Args:
        documents: the documents of the target. A thread uses them, too.
        store: says which batch the runs belong to, and the grace time.
        clock: returns seconds, as `time.monotonic` does.
    """

    def __init__(
        self,
        documents: RecordDocuments,
        store: RecordStore,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._documents = documents
        self._store = store
        self._leases = Leases(clock)
        self._id = token_hex(8)
        self._alive: dict[str, Lease] = {}
        """By folder: this process' lease."""
        self._taken: dict[str, str] = {}
        """The documents of turns that this process has taken, by turn."""

    def take(self, names: Sequence[str]) -> frozenset[str]:
        """Take turns without waiting; see `Presence.take_turns`.

        Args:
            names: of one run, or of runs of one batch.
        """
        if not names:
            return frozenset()
        folder = f"{FOLDER}/{self._store.batch_id or names[0].partition(':')[0]}"
        found = self._documents.read_all(folder)
        gone: set[str] = set()
        taken = frozenset(name for name in names if self._take(name, folder, found, gone))
        if gone:
            self._tidy(folder, gone)
        return taken

    def _take(self, name: str, folder: str, found: Found, gone: set[str]) -> bool:
        """Take a turn; return whether this process has it.

        Args:
            name: the turn.
            folder: the folder of its document.
            found: the documents there.
            gone: gets the process from which it was taken over.
        """
        document = f"{folder}/{name}.json"
        held = found.get(document)
        holder = "" if held is None else _holder(held[0])
        if holder != self._id and held is not None and not self._is_gone(holder, folder, found):
            self._taken.pop(name, None)
            return False
        self._show_life(folder, found)
        content = json.dumps({"holder": self._id}).encode()
        if held is None:
            is_mine = self._documents.create(document, content)
        elif holder == self._id:
            is_mine = True
        else:
            is_mine = self._documents.replace(document, content, held[1])
            gone.add(holder)
        if is_mine:
            self._taken[name] = document
        return is_mine

    def _show_life(self, folder: str, found: Found) -> None:
        """Renew a lease from now on, before others find a turn of this process."""
        lease = self._alive.get(folder)
        name = _lease_of(self._id, folder)
        if lease is not None and name in found:
            return
        if lease is not None:
            if self._documents.get(name) is not None:
                return
            lease.release()  # it was taken for gone
        new = self._leases.take(self._documents, name, self._store.patience.grace)
        if new is not None:
            self._alive[folder] = new

    def _is_gone(self, holder: str, folder: str, found: Found) -> bool:
        """Whether the process that has a turn shows no life."""
        name = _lease_of(holder, folder)
        # It may have been created while the folder was read.
        lease = found.get(name) or self._documents.get(name)
        return lease is None or self._leases.is_stale(name, lease[1], self._store.patience.grace)

    def _tidy(self, folder: str, gone: Collection[str]) -> None:
        """Remove the leases of processes that are gone, and have no turns any more."""
        left = {_holder(content) for content, _ in self._documents.read_all(folder).values()}
        self._documents.delete([_lease_of(holder, folder) for holder in set(gone) - left])

    def end(self, names: Sequence[str]) -> None:
        """Give back turns."""
        self._give_back([name for name in self._taken if name in names])

    def leave(self, run_ids: Collection[str]) -> None:
        """Give back the turns of runs."""
        self._give_back([name for name in self._taken if name.partition(":")[0] in run_ids])

    def close(self) -> None:
        """Give back all turns, so that others need not wait."""
        if not self._alive:
            return
        thread = threading.Thread(target=self._close, daemon=True, name="penstock: turns")
        thread.start()
        thread.join(LEAVE_SECONDS)

    def _close(self) -> None:
        self._give_back(list(self._taken))
        for lease in self._alive.values():
            lease.release()
        self._alive.clear()

    def _give_back(self, names: Sequence[str]) -> None:
        documents = {self._taken.pop(name) for name in names}
        with suppress(PenstockError):
            mine = [name for name in documents if self._is_mine(name)]
            if mine:
                self._documents.delete(mine)

    def _is_mine(self, document: str) -> bool:
        found = self._documents.get(document)
        return found is not None and _holder(found[0]) == self._id


def _lease_of(holder: str, folder: str) -> str:
    return f"{folder}/{holder}.alive.json"


def _holder(content: bytes) -> str:
    """Return the id of the process that has a turn; empty if the document says nothing."""
    try:
        document: Any = json.loads(content)
        return str(document["holder"])
    except (ValueError, KeyError, TypeError):
        return ""
