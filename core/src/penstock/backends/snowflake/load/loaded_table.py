"""The table that a run loads: whether it is still the one that the run was prepared for."""

from __future__ import annotations

from penstock.backends.api.records import Kind
from penstock.backends.snowflake.catalog.tables import facts_of
from penstock.backends.snowflake.records import SnowflakeRecords
from penstock.backends.sql.loaded_table import LoadedTable
from penstock.errors import Diagnosis, TargetChanged
from penstock.model.tables import TableRef
from penstock.spec.modes import MODES


def check_loaded(
    records: SnowflakeRecords, run_id: str, table: TableRef, mode: str, mine: int = 0
) -> None:
    """
    Parameters:
        mine: rows that the transaction has loaded, and not recorded.

    Raises:
        TargetChanged: rows that the run has loaded are gone, or there are others where it should
            be alone.
    """
    LoadedTable(records, table).check(run_id, MODES[mode])
    (row,) = records.read(Kind.RUN, {"run_id": run_id}, ("made", "prepared_at"))
    found = facts_of(records.session, table)
    made = found[0] if found else "no table of that name"
    if row["prepared_at"] is None:
        return
    expected = f"the table made at {row['made']}"
    if made == row["made"] and MODES[mode].starts_empty:
        # In one statement: attempts of this run commit meanwhile. The server counts no rows for it.
        ((there, loaded),) = records.execute(
            f"SELECT (SELECT COUNT(*) FROM {records.session.table(table)}),"
            f' (SELECT COALESCE(SUM("ROWS"), 0) FROM {records.named("commit_record")}'
            " WHERE run_id = ?)",
            [run_id],
            reading=True,
        )
        if int(there) == int(loaded) + mine:
            return
        expected, made = f"{int(loaded) + mine:,} rows", f"{int(there):,}"
    elif made == row["made"]:
        return
    raise TargetChanged(
        f"target: {table} was changed by somebody else since run {run_id} began to load it: "
        f"expected {expected}, found {made}; start a new run",
        Diagnosis(side="target"),
    )
