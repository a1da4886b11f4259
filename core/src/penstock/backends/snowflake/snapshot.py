"""One moment of a source for all sessions, by Snowflake's time travel.

https://docs.snowflake.com/en/user-guide/data-time-travel
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.backends.snowflake.connection import connect
from penstock.backends.snowflake.session import SnowflakeSession
from penstock.errors import Diagnosis, PenstockError, PlanningError
from penstock.model.snapshots import Snapshot
from penstock.model.tables import Relation, TableRef

_OTHERWISE = "; or pass --snapshot none, and prevent writes to the source until the copy ends"


class HeldTimestamp:
    """A snapshot that needs no holder, since the server keeps the data.

    It does so as long as the tables retain it (DATA_RETENTION_TIME_IN_DAYS).
    """

    def __init__(self, url: str, relations: Sequence[Relation]) -> None:
        session = SnowflakeSession(connect(url, "source"))
        try:
            ((now,),) = session.fetch("SELECT CAST(SYSDATE() AS VARCHAR)", "snapshot")
            self.snapshot = Snapshot(f"{now} +0000", f"{now}+00:00")
            session.moment = self.snapshot.token
            for relation in relations:
                _check(session, relation)
        finally:
            session.connection.close()

    def is_alive(self) -> bool:
        return True  # a reader that finds it gone reports that

    def close(self) -> None:
        """Do nothing: nothing is held."""


def _check(session: SnowflakeSession, relation: Relation) -> None:
    """Check that a relation can be read as of a moment.

    Raises:
        PlanningError: the relation is a query, or its past state cannot be read.
    """
    if not isinstance(relation, TableRef):
        raise PlanningError(
            "source: snapshot: expected a table; the tables of a query have no common moment: "
            f"write AT (TIMESTAMP => ...) in the query{_OTHERWISE}",
            Diagnosis(side="source"),
        )
    try:
        session.fetch(f"SELECT 1 FROM {session.table(relation)} LIMIT 1", f"snapshot of {relation}")
    except PenstockError as error:
        raise PlanningError(f"{error.message}{_OTHERWISE}", error.diagnosis) from error


hold_snapshot = HeldTimestamp
