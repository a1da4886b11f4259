"""The writes to a table, by the server's counters and its transactions; no row is read."""

from __future__ import annotations

import hashlib
import re

from penstock.backends.api.optional.writes import TableWrites
from penstock.backends.postgresql.connection import Connection
from penstock.backends.postgresql.session.statements import for_server
from penstock.errors import PlanningError
from penstock.model.nights import Horizon
from penstock.model.snapshots import SourceState
from penstock.model.tables import TableRef

_MOMENT = re.compile(r"(\d+):(?P<xmax>\d+):[\d,]*")
_KINDS = {"v": "a view", "f": "a foreign table"}


def read_writes(connection: Connection, table: TableRef, oid: int) -> TableWrites:
    """Return what was written to a table; see `NoticesWrites`.

    Args:
        connection: a session on the source.
        table: the table, for messages.
        oid: its object id.

    Raises:
        PlanningError: the server does not count the writes to it.
    """
    query = for_server(connection, "written")
    found = connection.execute(query, {"oid": oid, "all": not table.only}).fetchall()
    ((standby, kinds, files, counted, since),) = found
    if standby:
        raise PlanningError(
            f"source: {table}: expected a primary, which counts the writes to a table, found a "
            "standby; ask its primary"
        )
    if kinds:
        names = " and ".join(_KINDS.get(kind, f"relation of kind {kind}") for kind in kinds)
        raise PlanningError(
            f"source: {table}: expected a table that stores its rows, since only writes to those "
            f"are counted; found {names}"
        )
    mark = hashlib.sha256(f"{oid} {files} {counted} {since}".encode()).hexdigest()[:32]
    return TableWrites(mark, counted)


def was_all_read(planned: SourceState, now: SourceState, read: Horizon) -> bool:
    """Whether a snapshot has seen everything that was written to a table, as far as is known.

    What was counted when the run was planned had been committed by transactions below the end of
    that moment. If all of those had ended when the snapshot was taken, it has seen them.

    Args:
        planned: the state of the table when the run was planned.
        now: its state now.
        read: the snapshot's horizon.
    """
    moment = _MOMENT.fullmatch(planned.moment)
    if moment is None or not planned.writes:
        return False
    same = ("layout", "writes", "parts", "shape")
    unchanged = all(getattr(planned, name) == getattr(now, name) for name in same)
    return unchanged and int(moment["xmax"]) <= read.xmin
