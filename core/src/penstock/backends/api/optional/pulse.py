"""The waits of a run's sessions on a server, and how far a source's standbys are behind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

Waits = Mapping[str, int]
"""The number of sessions by what they wait for, in the database's own words: ``{"CPU": 2,
"IO:WALSync": 1, "Client:ClientRead": 1}``.
"""

WORKING = "working"
"""No wait: the session computes."""
LOCKS = "locks"
"""Other sessions: rows, tables, pages, shared structures in memory."""
LOG = "log"
"""The write-ahead log, or its equivalent."""
STORAGE = "storage"
"""Files other than the log's."""
MOVER = "mover"
"""Penstock: for rows to arrive, or to be taken."""
OTHER = "other"
KINDS = (WORKING, LOCKS, LOG, STORAGE, MOVER, OTHER)
"""The kinds of waits, for every database."""


class Pulse(Protocol):
    """A separate connection that observes a server's sessions."""

    def waits(self, run_ids: Sequence[str]) -> Mapping[str, Waits]:
        """Return what the sessions of these runs are waiting for now.

        Keyed by run; runs without sessions are left out.

        Costs next to nothing; called about once a second.

        Raises:
            TransientError: the server does not answer. PermanentError: the information is not
                available.
        """
        ...

    def room(self) -> int | None:
        """Return how many more sessions this user could open now; None if unknown.

        Raises:
            TransientError, PermanentError: as for `waits`.
        """
        ...

    def close(self) -> None:
        """Disconnect. May be called twice."""
        ...


class WithPulse(Protocol):
    """A backend with the capability `shows_waits`, as a source, a target or both."""

    def pulse(self, url: str, side: str) -> Pulse:
        """Open a pulse.

        Raises:
            TransientError: the server cannot be reached, or has no connection left.
        """
        ...

    def wait_kind(self, wait: str) -> str:
        """Return which of `KINDS` a wait in `Waits` is."""
        ...


class LagGauge(Protocol):
    """A separate connection that measures replication lag."""

    subject: str
    """What lags, as the subject of a sentence, such as "the source, a standby,"."""
    hint: str
    """Advice for when it does not catch up."""

    def lag(self) -> float:
        """Return the lag in seconds; 0 if there is none.

        Costs next to nothing; called about once a second.

        Raises:
            TransientError: the server does not answer.
        """
        ...

    def close(self) -> None:
        """Disconnect. May be called twice."""
        ...


class WithLag(Protocol):
    """A backend whose sources support the option `max_lag`."""

    def lag_gauge(self, url: str) -> LagGauge:
        """Open a gauge.

        Raises:
            PlanningError: the user may not see replication; names the privilege needed.
            TransientError: the server cannot be reached.
        """
        ...
