"""The waits of a run's sessions, from `pg_stat_activity`.

https://www.postgresql.org/docs/current/monitoring-stats.html#WAIT-EVENT-TABLE
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.backends.api.optional.pulse import LOCKS, LOG, MOVER, OTHER, STORAGE, WORKING, Waits
from penstock.backends.postgresql.connection import LOOK_LOCK, abandon, connect
from penstock.backends.postgresql.errors import translated
from penstock.backends.postgresql.session.statements import statement
from penstock.errors import Diagnosis, PermanentError

CPU = "CPU"
"""An active session that waits for nothing."""
_BY_TYPE = {
    "Lock": LOCKS,
    "LWLock": LOCKS,
    "BufferPin": LOCKS,
    "Buffer": LOCKS,
    "IO": STORAGE,
    "Client": MOVER,
}


class PostgresPulse:
    """See `Pulse`."""

    def __init__(self, url: str, side: str) -> None:
        self._side = side
        self._connection = connect(url, side, "penstock:pulse", lock_seconds=LOOK_LOCK)
        self._connection.side = side

    def waits(self, run_ids: Sequence[str]) -> Mapping[str, Waits]:
        with translated(self._side):
            rows = self._connection.execute(statement("waits"), [list(run_ids)]).fetchall()
        counts: dict[str, dict[str, int]] = {}
        for run_id, wait, sessions in rows:
            if wait is None:
                raise PermanentError(
                    f"{self._side}: {self._connection.info.user!r} may not see what the run's "
                    "sessions wait for, because they belong to another user; grant it "
                    "pg_read_all_stats",
                    Diagnosis(side=self._side),
                )
            counts.setdefault(run_id, {})[wait] = sessions
        return counts

    def room(self) -> int | None:
        if self._connection.pooled:
            return None  # the pooler's own limits apply
        with translated(self._side):
            return int(self._connection.value(statement("room")))

    def close(self) -> None:
        abandon(self._connection)


def wait_kind(wait: str) -> str:
    """Return the kind of a wait; see `WithPulse`.

    Names of events differ between versions, so only their beginnings count.
    """
    if wait == CPU:
        return WORKING
    kind, _, event = wait.partition(":")
    # LWLock:WALInsert, LWLock:WALWrite, IO:WALSync; before version 13 LWLock:wal_insert.
    if kind in ("LWLock", "IO") and event.upper().startswith("WAL"):
        return LOG
    return _BY_TYPE.get(kind, OTHER)
