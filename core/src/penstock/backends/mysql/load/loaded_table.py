"""The table that a run loads, and whether it is still the one that the run was prepared for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.backends.api.execution.records import Kind
from penstock.backends.mysql.catalog.tables import CREATION_TIME, creation_time, obstacle
from penstock.backends.mysql.dialect import MYSQL
from penstock.backends.mysql.records import MySqlRecords
from penstock.backends.mysql.session import MySqlSession
from penstock.backends.sql.definitions.index_changes import IndexChange
from penstock.backends.sql.loads.loaded_table import LoadedTable
from penstock.errors import Diagnosis, TargetChanged, TransientError
from penstock.model.codec import from_json
from penstock.model.plans import PartitionPlan
from penstock.model.tables import TableRef
from penstock.spec.modes import MODES, Table

Row = tuple[Any, ...]
Statements = list[tuple[str, Sequence[Any]]]
# Follows a table's creation time in the records of the runs that load it: one of them is altering
# the table now, which may change that time.
ALTERING = ", altering"


def look(records: MySqlRecords, run_id: str, table: TableRef, mode: str = "") -> Statements:
    """Return statements for `is_sound`, about the table as the run knows it and its creation time.

    Args:
        records: the control tables.
        run_id: the run that loads the table.
        table: the table that the run loads.
        mode: the lock mode for the run's row.
    """
    noted = f"SELECT 1 FROM {records.table_name('loaded_table')} WHERE id = %s"
    return [
        (
            f"SELECT generation, disturbed_by, made, EXISTS ({noted})"
            f" FROM {records.table_name('run')} WHERE run_id = %s {mode}",
            [LoadedTable(records, table).id, run_id],
        ),
        CREATION_TIME.statement(MYSQL.placeholder, MySqlSession.catalog, [table]),
    ]


def is_sound(runs: Sequence[Row], tables: Sequence[Row]) -> bool:
    """Whether the table is certainly the one the run was prepared for.

    If not, `check_loaded` examines it.

    Args:
        runs: the rows of the first answer to `look`, about the run.
        tables: the rows of the second, about the table.
    """
    if len(runs) != 1 or len(tables) != 1:
        return False
    ((_, disturbed_by, expected, counted),) = runs
    return disturbed_by is None and not counted and bool(expected) and tables[0][2] == expected


def check_loaded(records: MySqlRecords, run_id: str, table: TableRef, mode: str) -> None:
    """Check the rows of a run.

    Args:
        records: the control tables.
        run_id: the run that loads the table.
        table: the table that the run loads.
        mode: the name of the run's mode.

    Raises:
        TargetChanged: rows that the run has loaded are gone, as far as the server can tell.
        TransientError: the server cannot tell at the moment.
    """
    LoadedTable(records, table).check(run_id, MODES[mode])
    (row,) = records.read(Kind.RUN, {"run_id": run_id}, ("made",))
    created_at, recorded_at = creation_time(records.session, table), row["made"]
    if created_at == "" and recorded_at:
        why = obstacle(records.session, table) or (
            "is another session renaming, altering or dropping it?"
        )
        raise TransientError(
            f"target: {table}: the server reports no creation time for the table ({why})",
            Diagnosis(side="target"),
        )
    if (
        created_at is not None
        and recorded_at
        and recorded_at in (created_at, created_at + ALTERING)
    ):
        return
    if created_at is not None and recorded_at and recorded_at.endswith(ALTERING):
        ((rows,),) = records.session.fetch(
            f"SELECT EXISTS (SELECT 1 FROM {records.session.table(table)})", f"table {table}"
        )
        loaded = records.read(Kind.COMMIT, {"run_id": run_id}, ("rows",))
        if rows or not any(commit["rows"] for commit in loaded):
            return
    was = "no such table" if created_at is None else f"one created, or emptied, at {created_at}"
    raise TargetChanged(
        f"target: {table} was changed by another session after run {run_id} began to load it: "
        f"expected the table created at {(recorded_at or '').removesuffix(ALTERING)}, found {was}; "
        f"start a new run{_indexes_to_make(records, run_id, mode)}",
        Diagnosis(side="target"),
    )


def _indexes_to_make(records: MySqlRecords, run_id: str, mode: str) -> str:
    """Describe what a run that cannot continue leaves undone."""
    if MODES[mode].table is not Table.TARGET:
        return ""
    (row,) = records.read(Kind.RUN, {"run_id": run_id}, ("plan",))
    load = from_json(PartitionPlan, row["plan"]).load
    changes = ((step, IndexChange.of(step, load.table)) for step in load.after)
    due = [step.statement for step, change in changes if change is not None]
    return f", and create the indexes that this run dropped: {due[0]}" if due else ""


class MySqlMarks:
    """See `CreationMarks`."""

    def __init__(self, records: MySqlRecords) -> None:
        self._records = records

    def creation_mark(self, table: TableRef) -> str | None:
        return creation_time(self._records.session, table)

    def check_loaded(self, run_id: str, table: TableRef, mode: str) -> None:
        check_loaded(self._records, run_id, table, mode)
