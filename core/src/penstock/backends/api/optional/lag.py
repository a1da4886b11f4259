"""How far a source's standbys are behind, where a database has such a notion."""

from __future__ import annotations

from typing import Protocol


class LagGauge(Protocol):
    """A connection of its own that looks at replication."""

    subject: str
    """Who lags, for people: "the source, a standby," for instance."""
    hint: str
    """What to do where it does not catch up, for people."""

    def lag(self) -> float:
        """Seconds; 0 where nobody lags. Costs next to nothing; called about once a second.

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
        """
        Raises:
            PlanningError: this user may not see it; says what would do.
            TransientError: the server cannot be reached.
        """
        ...
