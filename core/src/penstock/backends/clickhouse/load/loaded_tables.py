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
    """Return what is recorded about the two tables, which may be the same.

    Args:
        session: a session with the target.
        loaded: the table that the run loads.
        target: the table that ends up with the rows.
    """
    return f"{session.uuid(loaded)} {session.uuid(target)} {_newest(session, target)}"


def loaded_uuid(run: RunDocument) -> str:
    """Return the UUID of the table that a run loads, as recorded when it was prepared."""
    return run.owner.split(" ")[0]


def check_loaded(
    session: ClickHouseSession, run_id: str, run: RunDocument, table: TableRef
) -> None:
    """Check that the loaded table is the one that the run prepared.

    Args:
        session: a session with the target.
        run_id: the run that loads the table.
        run: the run's document.
        table: the table to check.

    Raises:
        TargetChanged: the table was dropped, or another one has its name.
    """
    if run.prepared_at is not None and session.uuid(table) != loaded_uuid(run):
        raise changed(run_id, table, "dropped or replaced the table")


def check_replaced(
    session: ClickHouseSession, run_id: str, run: RunDocument, table: TableRef, mode: Mode
) -> None:
    """Check that the table which the run's is to replace is unchanged.

    Args:
        session: a session with the target.
        run_id: the run that replaces the table.
        run: the run's document.
        table: the table to check.
        mode: the run's load mode.

    Raises:
        TargetChanged: another table has its name, or rows were added that the mode would lose.
    """
    if run.prepared_at is None:
        return
    _, uuid, newest = run.owner.split(" ")
    if session.uuid(table) != uuid:
        raise changed(run_id, table, "created, dropped or replaced the table")
    if mode.empties_before and _newest(session, table) > int(newest):
        raise changed(run_id, table, "added rows, which would be lost,")


def _newest(session: ClickHouseSession, table: TableRef) -> int:
    """Return the number of the last block written to a table; merges write none."""
    query = (
        "SELECT toInt64(max(max_block_number)) FROM system.parts"
        " WHERE active AND database = {p2:String} AND table = {p3:String}"
    )
    return int(session.facts(query, table)[0][0])


def changed(run_id: str, table: TableRef, change: str) -> TargetChanged:
    """Return the error for a table that was changed during a run.

    Args:
        run_id: the run that expected the table unchanged.
        table: the table that was changed.
        change: the change, as a verb and its object, for the message.
    """
    return TargetChanged(
        f"target: {table}: another run or program {change} after run {run_id} was prepared; start "
        "a new run",
        Diagnosis(side="target"),
    )
