"""What this run's sessions on a server wait for at a moment, where a database can tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

Waits = Mapping[str, int]
"""By what they wait for, in the database's own words, how many sessions: ``{"CPU": 2,
"IO:WALSync": 1, "Client:ClientRead": 1}``."""

WORKING = "working"
"""It waits for nothing: it computes."""
LOCKS = "locks"
"""For other sessions: rows, tables, pages, shared structures in memory."""
LOG = "log"
"""For the write-ahead log, or what a database has in its place."""
STORAGE = "storage"
"""For files other than the log's."""
MOVER = "mover"
"""For us: for rows to come, or to be taken."""
OTHER = "other"
KINDS = (WORKING, LOCKS, LOG, STORAGE, MOVER, OTHER)
"""What a wait comes to, whatever the database."""


class Pulse(Protocol):
    """A connection of its own that looks at a server's sessions."""

    def waits(self, run_ids: Sequence[str]) -> Mapping[str, Waits]:
        """What the sessions of these runs wait for right now, by run; of those that have any.

        Costs next to nothing; called about once a second.

        Raises:
            TransientError: the server does not answer. PermanentError: it does not tell.
        """
        ...

    def room(self) -> int | None:
        """How many more sessions this user could open right now; None: not known.

        Raises:
            TransientError, PermanentError: as above.
        """
        ...

    def close(self) -> None:
        """Disconnect. May be called twice."""
        ...


class WithPulse(Protocol):
    """A backend with the capability `shows_waits`, as a source, as a target or both."""

    def pulse(self, url: str, side: str) -> Pulse:
        """
        Raises:
            TransientError: the server cannot be reached, or has no connection left.
        """
        ...

    def wait_kind(self, wait: str) -> str:
        """Which of `KINDS` a wait of `Waits` is."""
        ...
