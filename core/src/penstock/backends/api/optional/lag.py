"""How far a source's standbys are behind, in databases that have them."""

from __future__ import annotations

from typing import Protocol


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
