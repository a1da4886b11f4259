"""The table that a run loads: whether it is still the one that the run was prepared for."""

from __future__ import annotations

from penstock.backends.api.records import Kind
from penstock.backends.mssql.catalog.tables import made_at
from penstock.backends.mssql.records import MssqlRecords
from penstock.backends.sql.loaded_table import LoadedTable
from penstock.errors import Diagnosis, TargetChanged
from penstock.model.tables import TableRef
from penstock.spec.modes import MODES


def check_loaded(records: MssqlRecords, run_id: str, table: TableRef, mode: str) -> None:
    """
    Raises:
        TargetChanged: rows that the run has loaded are gone, as far as the server can tell.
    """
    LoadedTable(records, table).check(run_id, MODES[mode])
    rows = records.read(Kind.RUN, {"run_id": run_id}, ("made",))
    expected = rows[0]["made"] if rows else None
    found = made_at(records.session, table)
    if expected and found != expected:
        raise TargetChanged(
            f"target: {table} was changed by somebody else since run {run_id} began to load it: "
            f"expected the table made at {expected.partition(':')[2]}, found "
            f"{'one made at ' + found.partition(':')[2] if found else 'no table of that name'}; "
            "start a new run",
            Diagnosis(side="target"),
        )
