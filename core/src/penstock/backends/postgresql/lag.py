"""Replication lag: a standby's own replay, or a primary's standbys."""

from __future__ import annotations

from penstock.backends.postgresql.connection import LOOK_LOCK, abandon, connect
from penstock.backends.postgresql.errors import translated
from penstock.backends.postgresql.session.statements import statement
from penstock.errors import Diagnosis, PlanningError

_OF_STANDBY = (
    "the run's own snapshot may hold replay back on a standby without hot_standby_feedback "
    "(max_standby_streaming_delay); to continue, resume the run with a longer --max-lag"
)
_OF_PRIMARY = "see pg_stat_replication; to continue, resume the run with a longer --max-lag"


class PostgresLagGauge:
    """See `LagGauge`."""

    def __init__(self, url: str) -> None:
        self._connection = connect(url, "source", "penstock:lag", lock_seconds=LOOK_LOCK)
        self._connection.side = "source"
        try:
            standby, _, hidden = self._look()
            if hidden:
                raise PlanningError(
                    f"--max-lag: {self._connection.info.user!r} may not see how far the source's "
                    "standbys are behind; grant the user pg_monitor or pg_read_all_stats",
                    Diagnosis(side="source"),
                )
        except BaseException:
            self.close()
            raise
        self.subject = "the source, a standby," if standby else "a standby of the source"
        self.hint = _OF_STANDBY if standby else _OF_PRIMARY

    def lag(self) -> float:
        return self._look()[1]

    def close(self) -> None:
        abandon(self._connection)

    def _look(self) -> tuple[bool, float, int]:
        """Return whether this is a standby, the lag, and how many standbys do not report theirs."""
        with translated("source"):
            standby, lag, hidden = self._connection.first(statement("lag"))
        return standby, float(lag), hidden
