"""The tables of a run, and whether they are unchanged since it was prepared.

The owner in the run's document records the UUID of the loaded table, which stays when a table is
renamed, the UUID of the target's table, and the newest of its parts.
"""

from __future__ import annotations

from penstock.backends.clickhouse.session import ClickHouseSession
from penstock.backends.roll_forward.runs import RunDocument
from penstock.errors import Diagnosis, TargetChanged
from penstock.model.tables import TableRef
from penstock.spec.modes import Mode


def recorded_tables(session: ClickHouseSession, loaded: TableRef, target: TableRef) -> str:
    """Return what is recorded about the two tables, which may be the same."""
    return f"{session.uuid(loaded)} {session.uuid(target)} {_newest(session, target)}"


def loaded_uuid(run: RunDocument) -> str:
    return run.owner.split(" ")[0]


def check_loaded(
    session: ClickHouseSession, run_id: str, run: RunDocument, table: TableRef
) -> None:
    """Check the loaded table.

    Raises:
        TargetChanged: it was dropped, or another table has its name.
    """
    if run.prepared_at is not None and session.uuid(table) != loaded_uuid(run):
        raise changed(run_id, table, "was dropped or replaced")


def check_replaced(
    session: ClickHouseSession, run_id: str, run: RunDocument, table: TableRef, mode: Mode
) -> None:
    """Check the table that the run's is to replace.

    Raises:
        TargetChanged: it is another table, or rows were added that the mode does not allow.
    """
    if run.prepared_at is None:
        return
    _, uuid, newest = run.owner.split(" ")
    if session.uuid(table) != uuid:
        raise changed(run_id, table, "was made, dropped or replaced")
    if mode.empties_before and _newest(session, table) > int(newest):
        raise changed(run_id, table, "has got rows, which would be lost,")


def _newest(session: ClickHouseSession, table: TableRef) -> int:
    """Return the number of the last block written to a table; merges write none."""
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
