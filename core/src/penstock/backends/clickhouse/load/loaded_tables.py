"""The tables of a run: whether they are still what they were when it was prepared.

The run's document says it, as the owner: the UUID of the table that is loaded, which a table keeps
when it is renamed; that of the target's, and the newest of its parts.
"""

from __future__ import annotations

from penstock.backends.clickhouse.session import ClickHouseSession
from penstock.backends.roll_forward.runs import RunDocument
from penstock.errors import Diagnosis, TargetChanged
from penstock.model.tables import TableRef
from penstock.spec.modes import Mode


def seen(session: ClickHouseSession, loaded: TableRef, target: TableRef) -> str:
    """What is kept of the two tables, which may be the same."""
    return f"{session.uuid(loaded)} {session.uuid(target)} {_newest(session, target)}"


def loaded_uuid(run: RunDocument) -> str:
    return run.owner.split(" ")[0]


def check_loaded(
    session: ClickHouseSession, run_id: str, run: RunDocument, table: TableRef
) -> None:
    """
    Raises:
        TargetChanged: it was dropped, or another one has its name.
    """
    if run.prepared_at is not None and session.uuid(table) != loaded_uuid(run):
        raise changed(run_id, table, "was dropped or replaced")


def check_replaced(
    session: ClickHouseSession, run_id: str, run: RunDocument, table: TableRef, mode: Mode
) -> None:
    """Of the table whose place the run's is to take.

    Raises:
        TargetChanged: it is another one by now, or, unless the mode lets it have rows meanwhile,
            rows were added.
    """
    if run.prepared_at is None:
        return
    _, uuid, newest = run.owner.split(" ")
    if session.uuid(table) != uuid:
        raise changed(run_id, table, "was made, dropped or replaced")
    if mode.empties_before and _newest(session, table) > int(newest):
        raise changed(run_id, table, "has got rows, which would be lost,")


def _newest(session: ClickHouseSession, table: TableRef) -> int:
    """The number of the last block that was written to a table: merges make none."""
    query = (
        "SELECT toInt64(max(max_block_number)) FROM system.parts"
        " WHERE active AND database = {p2:String} AND table = {p3:String}"
    )
    return int(session.facts(query, table)[0][0])


def changed(run_id: str, table: TableRef, what: str) -> TargetChanged:
    return TargetChanged(
        f"target: {table} {what} since run {run_id} was prepared, by another run or by somebody "
        "else; start a new run",
        Diagnosis(side="target"),
    )
